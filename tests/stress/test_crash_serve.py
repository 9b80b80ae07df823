"""The one who asks a server all the time: lists of known runs are counted, all else is wrong."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import crash_serve
import pytest


@pytest.fixture
def answers():
    """A server that gives these lists in turn, the last one again and again."""
    left = [["a", "b"], ["b", "a"]]

    class Lists(BaseHTTPRequestHandler):
        def do_GET(self):
            items = left.pop(0) if len(left) > 1 and "recommendations" in self.path else left[0]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"items": [{"item": item} for item in items]}).encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Lists) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def asked_of(address, known):
    asked, wrong, ended = [], [], threading.Event()
    asking = threading.Thread(target=crash_serve.ask, args=(address, known, asked, wrong, ended))
    asking.start()
    deadline = time.monotonic() + 300
    while len(asked) + len(wrong) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    ended.set()
    asking.join()
    return asked, wrong


def test_lists_of_known_runs_are_counted_by_their_seed(answers):
    asked, wrong = asked_of(answers, {1: ["a", "b"], 2: ["b", "a"]})
    assert asked[0] == 1
    assert set(asked[1:]) == {2}
    assert not wrong
    assert crash_serve.arrives(asked, 2)


def test_a_list_of_no_run_is_wrong(answers):
    asked, wrong = asked_of(answers, {1: ["a", "b"]})
    assert asked == [1]
    assert wrong[0] == "a list of none of the runs: ('b', 'a')"


def test_no_answer_is_wrong():
    _, wrong = asked_of("http://127.0.0.1:1", {1: ["a"]})
    assert wrong[0].startswith("no answer: ")
