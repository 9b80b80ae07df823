"""The one who asks a server all the time: lists of known runs are counted, all else is wrong."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import crash_serve
import pytest

ONE, OTHER = [("a", 0.5), ("b", 0.25)], [("b", 0.5), ("a", 0.25)]


@pytest.fixture
def address():
    """A server that gives these lists in turn, the last one again and again; it takes no other run."""
    left = [ONE, OTHER]

    class Lists(BaseHTTPRequestHandler):
        def do_GET(self):
            items = left.pop(0) if len(left) > 1 and "recommendations" in self.path else left[0]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"items": [{"item": item, "score": score} for item, score in items]}).encode())

        def do_POST(self):
            self.send_error(409)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Lists) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def asked_of(address, known, monkeypatch):
    monkeypatch.setattr(crash_serve.Asked, "start", lambda self: setattr(self, "address", address))
    asked = crash_serve.Asked(None, known)
    asking = threading.Thread(target=asked.ask)
    asking.start()
    deadline = time.monotonic() + 300
    while len(asked.runs) + len(asked.wrong) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    asked.ended.set()
    asking.join()
    return asked


def test_lists_of_known_runs_are_counted_by_their_seed(address, monkeypatch):
    asked = asked_of(address, {1: {"u": ONE}, 2: {"u": OTHER}}, monkeypatch)
    assert asked.runs[0] == 1
    assert set(asked.runs[1:]) == {2}
    assert not asked.wrong
    assert asked.arrives(2)
    assert asked.reload() == 409


def test_a_list_of_no_run_is_wrong(address, monkeypatch):
    """The same items with other scores are another list."""
    asked = asked_of(address, {1: {"u": ONE}, 2: {"u": [("b", 0.5), ("a", 0.26)]}}, monkeypatch)
    assert asked.runs == [1]
    assert asked.wrong[0] == "a list of none of the runs for u: [('b', 0.5), ('a', 0.25)]"


def test_no_answer_is_wrong(monkeypatch):
    asked = asked_of("http://127.0.0.1:1", {1: {"u": ONE}}, monkeypatch)
    assert asked.wrong[0].startswith("no answer: ")
