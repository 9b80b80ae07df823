"""`accord` and `python` that start in a moment: forked from a process that has imported all of it already.

The examples of the docs are hundreds of commands, and two thirds of the time of a short one goes on imports. Commands
run by the real programs are in tests/cli, in `make heavy` and in `make wheel-check`. Tests that kill a command
start it with `started.Started`.

As a script: the process to fork from (`serve SOCKET`), or what stands for a program (`ask SOCKET PROGRAM WORDS`; with
`start PIPE SOCKET PROGRAM WORDS` it writes the forked process's id into the pipe).
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path

SIZE = 2**20


def ask(place: str, program: str, words: list[str], pipe: int | None = None) -> int:
    """Have a command run there with this process's files, folder and environment; its exit code, below 0 if killed."""
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(place)
        asked = {"program": program, "words": words, "cwd": str(Path.cwd()), "environment": dict(os.environ)}
        text = json.dumps(asked).encode()
        socket.send_fds(made, [len(text).to_bytes(8, "big")], [0, 1, 2])
        made.sendall(text)
        number = made.recv(8)
        if pipe is not None:
            os.write(pipe, number)
            os.close(pipe)
        answer = made.recv(8)
    return int.from_bytes(answer, "big", signed=True) if answer else 70  # nobody told


def serve(place: str) -> None:
    """Import everything, make a file that says so, and fork a process for every command until standard input ends."""
    import select

    _warm()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen()
        Path(place).with_name("ready").touch()
        while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
            made, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _watch(made)
            made.close()
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them here: the one who asked is told


def _warm() -> None:
    """Import what commands need, and train for a moment, which loads what is imported late and the compiled kernels."""
    import pandas  # noqa: F401
    import scipy.stats  # noqa: F401
    import vl_convert  # noqa: F401

    import accord.cli.app
    import accord.cli.display
    import accord.consensus.search
    import accord.report.run_report  # noqa: F401
    from accord.data.simulate import simulate
    from accord.fitting import fit

    fit(simulate(users=60, items=40, interactions=500).dataset, "gmf", "deca", epochs=1, device="cpu").recommend(
        None, 3
    )
    assert threading.active_count() == 1, "no thread is there after a fork"
    gc.collect()
    gc.freeze()  # no command collects, and so copies, what all of them share


def _watch(made: socket.socket) -> None:
    """Fork once more, for the command itself; tell its id, and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    number = os.fork()
    if number == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have left it ignored
        _answer(made)
    made.sendall(number.to_bytes(8, "big"))
    code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    made.sendall(code.to_bytes(8, "big", signed=True))
    os._exit(0)


def _answer(made: socket.socket) -> None:
    size, files, _, _ = socket.recv_fds(made, 8, 3)
    text = b""
    while len(text) < int.from_bytes(size, "big"):
        text += made.recv(SIZE)
    made.close()
    asked = json.loads(text)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    os._exit(_run(asked["program"], asked["words"]))


def _run(program: str, words: list[str]) -> int:
    import atexit
    import traceback
    import types

    sys.modules["__main__"] = main = types.ModuleType("__main__")
    sys.stdin = open(0)  # noqa: SIM115
    ended = 0
    try:
        if program == "accord":
            from accord.cli.app import main as command

            sys.argv = ["accord", *words]
            command()
        else:
            assert words[0] == "-c" or words[0].endswith(".py"), f"python {words[0]} is not for here"
            code = words.pop(1) if words[0] == "-c" else Path(words[0]).read_text(encoding="utf-8")
            sys.argv, sys.path[0] = words, str(Path.cwd() if words[0] == "-c" else Path(words[0]).resolve().parent)
            exec(compile(code, words[0], "exec"), main.__dict__)
    except SystemExit as end:
        ended = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        ended = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return ended


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        sys.path.pop(0)
        serve(sys.argv[2])
    else:
        pipe = int(sys.argv.pop(2)) if sys.argv[1] == "start" else None
        ended = ask(sys.argv[2], sys.argv[3], sys.argv[4:], pipe)
        if ended < 0:
            os.kill(os.getpid(), -ended)  # as it was
        sys.exit(ended)
