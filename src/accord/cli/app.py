"""The command line: the app, its commands, and what is printed when one fails. Commands import what is slow."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from accord.cli.ask import explain, recommend, score, similar
from accord.cli.audit import audit, judge, weights
from accord.cli.data import data_app
from accord.cli.demo import demo
from accord.cli.options import with_groups
from accord.cli.serve import serve
from accord.cli.train import evaluate, methods, models, report, train, update
from accord.errors import InputError, printable
from accord.io.files import UNFINISHED
from accord.version import __version__

COMMANDS = (
    *(demo, train, evaluate, audit, weights, judge, report, serve, recommend, similar, score, explain, update),
    *(models, methods),
)  # in the order of `accord --help`

RESUMABLE = ("train", "audit")
WHAT = "Train recommenders from noisy implicit feedback, and find the interactions that were not real preferences."


def _every(
    version: Annotated[bool, Option("--version", help="print the version")] = False,
    offline: Annotated[bool, Option("--offline", help="never download; the same as ACCORD_OFFLINE=1")] = False,
) -> None:
    if offline:
        os.environ["ACCORD_OFFLINE"] = "1"
    if version:
        typer.echo(f"accord {__version__}")
        raise typer.Exit


def add_entry_points(app: typer.Typer) -> None:
    """Add the commands of other packages: functions and typer apps in the entry point group `accord.commands`."""
    for entry in sorted(entry_points(group="accord.commands"), key=lambda entry: entry.name):
        try:
            command = entry.load()
        except ImportError as error:
            anything = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
            app.command(entry.name, hidden=True, context_settings=anything)(_not_available(entry.name, error))
        else:
            if isinstance(command, typer.Typer):
                app.add_typer(command, name=entry.name)
            else:
                app.command(entry.name)(with_groups(command))


def _not_available(name: str, error: ImportError) -> Callable[[], None]:
    def fail() -> None:
        how = "; install that package" if isinstance(error, ModuleNotFoundError) else ""
        raise InputError(f"the command '{name}' cannot be loaded: {error}{how}.")

    return fail


def app_for(name: str | None) -> typer.Typer:
    """The app with the options of one command only, since reading those of all takes longer than the rest of --help;
    None: with the options of all commands."""
    names = {"help_option_names": ["-h", "--help"]}
    app = typer.Typer(
        help=WHAT, no_args_is_help=True, add_completion=False, rich_markup_mode=None, context_settings=names
    )
    app.callback(invoke_without_command=True)(_every)
    if name in (None, "data"):
        app.add_typer(data_app, name="data")
    for command in COMMANDS:
        if name in (None, command.__name__):
            app.command()(with_groups(command))
        else:
            app.command(command.__name__, help=command.__doc__)(lambda: None)
    if name not in {"data", *(command.__name__ for command in COMMANDS)}:
        add_entry_points(app)
    if name not in (None, "data"):
        app.command("data", help=data_app.info.help)(lambda: None)  # here, as typer lists commands before groups
    return app


def __getattr__(name: str) -> typer.Typer:
    """`app`: with the options of all commands, made when it is wanted, since that takes longer than --help."""
    if name == "app":
        return app_for(None)
    raise AttributeError(name)


def main() -> None:
    """Run a command. An error that a user can cause ends in one sentence and exit code 2."""
    warnings.showwarning = lambda message, *_args, **_kw: print(f"accord: {printable(str(message))}", file=sys.stderr)
    try:
        # typer returns the code of an exit, and 130 for Ctrl-C
        code = app_for(_command())(prog_name="accord", standalone_mode=False)
        if code == 130:
            raise KeyboardInterrupt
        sys.exit(code or 0)
    except InputError as error:
        sys.exit(_fail(error.for_command))
    except (KeyboardInterrupt, typer.Abort):
        again = "; the same command with --resume continues" if _command() in RESUMABLE else ""
        print(f"\naccord: stopped{again}.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        sys.exit(_fail(_sentence(error)))
    except Exception as error:
        if (why := _explained(error)) is None:
            raise
        sys.exit(_fail(why))


def _command() -> str:
    return next((word for word in sys.argv[1:] if not word.startswith("-")), "")


def _sentence(error: OSError) -> str:
    import errno

    where = f" while writing {error.filename}" if error.filename else ""
    if error.errno == errno.ENOSPC:
        again = "with --resume" if _command() in RESUMABLE else "again"
        return f"the disk is full{where}; make room and run the same command {again}."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and error.filename:
        name = str(error.filename)
        place = Path(name).parent if name.endswith(UNFINISHED) else name
        return f"{place}: {(error.strerror or '').lower()}; give a place that you can write to."
    return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}."


def _explained(error: Exception) -> str | None:
    """A sentence about too little memory or a wrong use; None for a defect of ours."""
    # torch raises a RuntimeError when a CPU has too little
    if isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error):
        return "there is not enough memory; use less data, or a smaller model or batch."
    if "deterministic implementation" in str(error):
        return "the model or method has no deterministic implementation on CUDA; run without --deterministic."
    message = getattr(error, "format_message", None)
    if message is None or not hasattr(error, "exit_code"):
        return None
    text = str(message()).rstrip(".")
    context = getattr(error, "ctx", None)
    return f"{text[:1].lower()}{text[1:]}; see '{context.command_path if context else 'accord'} --help'."


def _fail(sentence: str) -> int:
    print(f"accord: {printable(sentence)}", file=sys.stderr)
    return 2
