"""The command line as a whole: help, mistakes in one sentence, interruptions and errors of the system."""

from __future__ import annotations

import builtins
import errno
import signal
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from safetensors import SafetensorError
from typer.main import get_command
from typer.testing import CliRunner

import accord
from accord.__main__ import main as start
from accord.cli import app
from commands import run
from long_training import start_long_training, wait_for

MISTAKES = {
    "no such file": ("train nowhere.csv", "nowhere.csv"),
    "no such column": ("train clicks.csv --user-col who", "--user-col"),
    "unknown dataset": ("train ml-100kk", "did you mean 'ml-100k'"),
    "unknown model": ("train clicks.csv --model gmff", "did you mean 'gmf'"),
    "unknown method": ("train clicks.csv --method decca", "did you mean 'deca'"),
    "unknown protocol": ("train clicks.csv --protocol publish", "did you mean 'published'"),
    "unknown key": ("train clicks.csv --method deca --set method.alhpa=1", "did you mean 'alpha'"),
    "unknown section": ("train clicks.csv --set metod.c1=1", "method.NAME"),
    "no equals sign": ("train clicks.csv --set method.c1", "method.c1=100"),
    "bad type": ("train clicks.csv --method deca --set method.c1=many", "c1 of method deca"),
    "bad range": ("train clicks.csv --method deca --set method.alpha=2", "less than or equal to 1"),
    "bad epochs": ("train clicks.csv --epochs 0", "epochs"),
    "bad seeds": ("train clicks.csv --seeds 0", "seeds is 0"),
    "both seeds": ("train clicks.csv --seeds 2 --seed 3", "not both"),
    "bad split": ("train clicks.csv --split sideways", "unknown split"),
    "bad ratios": ("train clicks.csv --ratios 1,1,1", "ratios"),
    "bad rule": ("train clicks.csv --clean rating=>5", "clean rule"),
    "rule on another column": ("train clicks.csv --clean dwell>5", "dwell"),
    "bad k": ("train clicks.csv --k five", "--k"),
    "no cuda": ("train clicks.csv --device cuda", "--device cpu"),
    "unknown device": ("train clicks.csv --device tpu", "unknown device"),
    "method for ease": ("train clicks.csv --model ease --set method.c1=1", "is solved, not trained"),
    "no module": ("train clicks.csv --model not_there:Model", "cannot import 'not_there'"),
    "no class": ("train clicks.csv --model json:Model", "has no 'Model'"),
    "no run folder": ("evaluate nowhere", "no such folder"),
    "for whom": ("recommend nowhere", "name the users"),
    "parquet on the screen": ("recommend nowhere --all --format parquet", "-o FILE"),
    "unknown command": ("trian clicks.csv", "train"),
    "unknown option": ("train clicks.csv --epoch 3", "--epoch"),
    "missing argument": ("train", "missing argument"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "expected"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_sentence_and_exit_code_2(clicks, monkeypatch, capsys, words, expected):
    if "cuda" in words:
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, out, err = run(monkeypatch, capsys, *words.split())
    assert code == 2
    assert out == ""
    assert expected in err
    last = err.strip().splitlines()[-1]
    assert last.startswith("accord: ")
    assert last.endswith((".", "?"))
    assert "Traceback" not in err
    assert not (clicks / "runs").exists()


def test_ctrl_c_says_how_to_go_on(clicks):
    process = start_long_training("cut", epochs=100_000)
    wait_for(clicks / "cut/checkpoint-1.safetensors", process)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    said = process.stderr.read()
    assert "--resume" in said
    assert "Traceback" not in said


def test_a_full_disk_is_a_sentence(clicks, monkeypatch, capsys):
    def full(*_args, **_kwargs):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("accord.io.tensors.save_file", full)
    code, _, err = run(monkeypatch, capsys, "train", "clicks.csv", "--method", "deca", "--epochs", "1", "--out", "a")
    assert code == 2
    assert "disk is full" in err
    assert "Traceback" not in err
    assert not (clicks / "a/metrics.json").exists()


SLOW = "torch", "numpy", "scipy", "pyarrow", "pandas", "sklearn", "numba", "rich", "pooch", "matplotlib"


@pytest.mark.parametrize(
    ("words", "slow"),
    [
        (["--help"], (*SLOW, "pydantic")),  # which the options of a command may need
        *((words, SLOW) for words in (["train", "--help"], ["data", "--help"], ["--version"])),
    ],
)
def test_help_imports_nothing_that_is_slow(words, slow):
    code = f"import sys; sys.argv = ['accord', *{words}]\nfrom accord.cli.app import main\n"
    code += f"try: main()\nexcept SystemExit: pass\nassert not set({slow}) & set(sys.modules), sys.modules.keys()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_help_with_the_options_of_one_command_is_help():
    """What is shown, and what a command takes, does not depend on the others' options having been read."""

    def helped(made, *words):
        return CliRunner().invoke(made, [*words, "--help"]).output

    names = [command.name for command in get_command(app.app).commands.values()]
    for name in ("", "nonsense", "lab"):
        assert helped(app.app_for(name)) == helped(app.app), name
    for name in names:
        assert helped(app.app_for(name), name) == helped(app.app, name)


def test_the_version(monkeypatch, capsys):
    code, out, _ = run(monkeypatch, capsys, "--version")
    assert (code, out) == (0, f"accord {app.__version__}\n")


def test_every_command_is_there_by_its_name():
    assert [command.name or command.callback.__name__ for command in app.app.registered_commands] == [
        *("demo", "train", "evaluate", "audit", "weights", "judge", "report", "serve", "recommend", "similar"),
        *("score", "explain", "update", "models", "methods"),
        "compare",  # of the lab
    ]
    assert [group.name for group in app.app.registered_groups] == ["data", "lab"]
    lab = app.app.registered_groups[1].typer_instance.registered_commands
    assert [command.callback.__name__ for command in lab] == [
        *("reproduce", "leaderboard", "labels", "injected", "partners", "bars", "exposure", "verify"),
    ]


def hello(name: str) -> None:
    """Greet somebody."""
    print(f"hello {name}")


@pytest.mark.parametrize(
    ("value", "words", "expected"),
    [
        ("test_app:hello", ("hi", "world"), (0, "hello world\n", "")),
        ("no_such_package:hello", ("hi",), (2, "", "accord: the command 'hi' cannot be loaded: No module named 'no_")),
        (
            "no_such_package:hello",
            ("hi", "there", "--help", "-x"),
            (2, "", "accord: the command 'hi' cannot be loaded"),
        ),
        ("no_such_package:hello", ("models",), (0, "mf: matrix", "")),
    ],
)
def test_other_packages_add_commands(value, words, expected, monkeypatch, capsys):
    entry = EntryPoint("hi", value, "accord.commands")
    monkeypatch.setattr(app, "entry_points", lambda group: [entry] if group == "accord.commands" else [])
    monkeypatch.setitem(sys.modules, "test_app", sys.modules[__name__])
    code, out, said = run(monkeypatch, capsys, *words)
    assert code == expected[0]
    assert out.startswith(expected[1])
    assert said.startswith(expected[2])


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "x/model"), "the disk is full while writing x/model"),
        (PermissionError(errno.EACCES, "Permission denied", "x/.a.part"), "x: permission denied; give a place"),
        (OSError(errno.EIO, "Input/output error", "x"), "Input/output error: x."),
        (OSError("odd"), "odd."),
    ],
)
def test_errors_of_the_system_are_sentences(error, sentence):
    assert app._sentence(error).startswith(sentence)


def test_too_little_memory_is_a_sentence(monkeypatch, capsys):
    def full():
        raise MemoryError

    monkeypatch.setattr("accord.cli.display.describe_kinds", lambda *_: full())
    code, out, err = run(monkeypatch, capsys, "models")
    assert (code, out) == (2, "")
    assert err.startswith("accord: there is not enough memory")


def test_an_error_of_ours_keeps_its_traceback(monkeypatch, capsys):
    def broken(*_):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("accord.cli.display.describe_kinds", broken)
    monkeypatch.setattr(sys, "argv", ["accord", "models"])
    with pytest.raises(ZeroDivisionError, match="a defect"):
        app.main()


@pytest.mark.parametrize(
    ("words", "again"),
    [
        ("train clicks.csv --model popularity --out again", "with --resume"),
        ("report run --output page.html", "again"),
        ("recommend run --all --output lists.parquet", "again"),
        ("evaluate run --per-user users.parquet", "again"),
        ("compare clicks.csv --models mf --methods normal --epochs 1 --seeds 1 --out compared", "again"),
    ],
)
def test_a_full_disk_names_the_file_and_only_what_the_command_has(clicks, monkeypatch, capsys, words, again):
    if "run" in words.split():
        accord.fit(str(clicks / "clicks.csv"), "popularity", ks=[5], out=clicks / "run")

    def full(_handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    code, _, err = run(monkeypatch, capsys, *words.split())
    said = err.strip().splitlines()[-1]
    assert code == 2
    target = words.split()[-1]
    assert f"the disk is full while writing {target}" in said, said
    assert said.endswith(f"make room and run the same command {again}.")


def test_offline_for_one_command(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("ACCORD_OFFLINE", "")
    monkeypatch.delenv("ACCORD_DATA", raising=False)
    monkeypatch.setenv("ACCORD_CACHE", str(tmp_path))
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("the network was touched"))
    code, _, err = run(monkeypatch, capsys, "--offline", "data", "get", "ml-1m")
    assert code == 2
    assert "nothing is downloaded offline" in err


def test_ctrl_c_while_a_command_is_being_loaded_is_no_traceback(monkeypatch, capsys):
    def interrupted(name, *rest):
        if name == "accord.cli.app":
            raise KeyboardInterrupt
        return imported(name, *rest)

    imported = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", interrupted)
    with pytest.raises(SystemExit) as stop:
        start()
    assert stop.value.code == 130
    assert capsys.readouterr().err == "\naccord: stopped.\n"
