"""`accord serve` as a user meets it: start, ask, stop by a signal; and one sentence for every mistake."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import signal
import socket
import sys
import threading

import httpx
import pytest

from accord.cli.app import main
from serving import run  # noqa: F401
from started import Started


@pytest.fixture
def start():
    """Starts a server process, and tells its address; none outlives the test."""
    processes = []

    def start(*words):
        process = Started("accord", "serve", *words, "--port", "0")
        processes.append(process)
        said = ""
        while not (found := re.search(r"page (http://\S+)/", said)):
            line = process.stderr.readline()
            assert line, f"ended: {said}"
            said += line
        return process, found[1]

    yield start
    for process in processes:
        process.kill()


def ask_for_much(address, headers, answers):
    asked = {"users": [f"u{n:04}" for n in range(100)], "k": 40, "why": True}
    with contextlib.suppress(httpx.TransportError):  # it came too late: the server had stopped listening
        answers.append(httpx.post(f"{address}/v1/recommendations", json=asked, headers=headers, timeout=99).status_code)


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_requests_at_hand_are_answered_when_the_server_is_stopped(run, start, monkeypatch, stop, code):  # noqa: F811
    monkeypatch.setenv("ACCORD_TOKEN", "from-the-environment")
    process, address = start(run, "--log-requests")
    headers = {"authorization": "Bearer from-the-environment"}
    assert httpx.get(f"{address}/v1/about").status_code == 401
    answer = httpx.get(f"{address}/v1/history?user=u0002", headers=headers)
    assert answer.status_code == 200
    assert "server" not in answer.headers
    with httpx.Client() as kept:
        took = [kept.get(f"{address}/healthz").elapsed.total_seconds() for _ in range(40)]
    assert min(took[20:]) < 0.03  # an answer in two packets must not wait for the client to acknowledge the first

    answers = []
    threads = [threading.Thread(target=ask_for_much, args=(address, headers, answers)) for _ in range(12)]
    for thread in threads:
        thread.start()
    waiting, before = 0.0, 0
    while waiting < 2:  # the question itself, and at least one of those that take long
        before = len(answers)
        figures = httpx.get(f"{address}/metrics", headers=headers).text
        waiting = float(re.search(r"^accord_requests_waiting (.*)$", figures, re.MULTILINE)[1])
        assert before < len(threads)
    process.send_signal(stop)
    _, said = process.communicate(timeout=300)
    for thread in threads:
        thread.join()
    assert set(answers) == {200}
    assert len(answers) == said.count("POST '/v1/recommendations' 200") > before, "all that were begun were answered"
    assert process.returncode == code
    assert said.endswith("accord: stopped\n")
    assert "GET '/v1/history?user=u0002' 200" in said
    assert "from-the-environment" not in said
    assert "Traceback" not in said


def command(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["accord", "serve", *map(str, words)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code, capsys.readouterr().err


def test_mistakes_are_one_sentence(run, tmp_path, monkeypatch, capsys):  # noqa: F811
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, sentence in [
            ((tmp_path / "nowhere",), "there is no such folder"),
            ((run, "--port", port), "give another --host or --port"),
            ((run, "--port", "70000"), "is not a port"),
            ((run, "--host", "0.0.0.0"), "needs a token: set ACCORD_TOKEN"),
            ((run, "--host", "no.such.host.invalid", "--token", "t" * 16), "give another --host or --port"),
            ((run, "--host", "0.0.0.0", "--token", "t" * 15), "give 16 characters or more"),
            ((run, "--token", "a b"), "--token must be visible ASCII characters"),
        ]:
            code, said = command(monkeypatch, capsys, *words)
            assert code == 2
            assert said.startswith("accord: ")
            assert sentence in said
            assert said.count("\n") == 1


def test_without_the_extra_it_says_how_to_get_it(run, monkeypatch, capsys):  # noqa: F811
    find = importlib.util.find_spec
    monkeypatch.setattr("accord.cli.serve.find_spec", lambda name: None if name == "fastapi" else find(name))
    code, said = command(monkeypatch, capsys, run)
    assert code == 2
    assert "pip install 'accord[serve]'" in said
