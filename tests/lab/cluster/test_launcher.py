"""Processes of one run on a Ray cluster, without one; test_executor.py starts a real cluster."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from accord.errors import InputError
from accord_lab.cluster import launcher


class Queue:
    """In the place of Ray's."""

    def __init__(self):
        self.lines = []

    def put(self, line):
        self.lines.append(line)

    def qsize(self):
        return len(self.lines)

    def get_nowait_batch(self, size):
        taken, self.lines = self.lines[:size], self.lines[size:]
        return taken


def test_what_a_process_prints_is_sent_line_by_line():
    queue = Queue()
    out = launcher._Lines("stdout", queue)
    assert out.write("one\ntw") == 6
    out.write("o\n")
    out.write("rest")
    assert queue.lines == [("stdout", "one"), ("stdout", "two")]


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["trian"], 2)])
def test_a_process_runs_the_command_and_gives_its_code(words, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setenv("ACCORD_TEST", "before")
    queue = Queue()
    assert launcher.Process().run(words, str(tmp_path), {"ACCORD_TEST": "set"}, queue) == code
    (name, line), *_ = queue.lines
    assert name == ("stderr" if code else "stdout")
    assert line.startswith("accord")


def test_lines_are_printed_and_the_largest_code_is_returned(capsys):
    queue = Queue()
    queue.put(("stdout", "a result"))
    queue.put(("stderr", "a note"))

    class Lost(Exception):
        pass

    def get(one):
        if one == "lost":
            raise Lost
        return one

    ray = SimpleNamespace(
        wait=lambda running, timeout: (running[:1], running[1:]),
        get=get,
        exceptions=SimpleNamespace(RayActorError=Lost),
    )
    assert launcher._print_lines(ray, [0, 0], queue) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("a result\n", "a note\n")
    assert launcher._print_lines(ray, [0, "lost"], queue) == 2
    assert launcher._print_lines(ray, [130, 0], queue) == 130


def test_there_is_at_least_one_process():
    with pytest.raises(InputError, match="--ranks 0: give at least 1"):
        launcher.train_on("auto", 0, "cpu", [])
