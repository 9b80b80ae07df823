"""Requests to a server with the only correct answers, and clients that send them at a given rate."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import torch

from accord.recommender.recommender import Recommender
from accord.serve.api import as_json
from accord.serve.guard import SECURITY_HEADERS
from accord.serve.snapshots import Snapshot

TOKEN = "token-of-the-load-campaign"
LINES = 400  # connections of well-behaved clients; more than the requests that the server takes at once
PATIENCE = 60.0  # seconds for an answer, by our clock; later is a failure
LONGEST = 300.0  # and by any clock
EVERY_ANSWER = "".join(f"{name.lower()}: {value}\r\n" for name, value in SECURITY_HEADERS.items()).encode()
TELLING = (b"Traceback", b"uvicorn", b"starlette", b"pydantic", b"fastapi", b"site-packages", b'File "')


class Clock:
    """Seconds without those in which server or clients were ready to work and others had the CPUs."""

    def __init__(self, server: int) -> None:
        self._files = (Path(f"/proc/{server}/schedstat"), Path("/proc/self/schedstat"))

    def now(self) -> tuple[float, float, float]:
        """The time, and how long each of the two has waited for a CPU so far."""
        server, ours = (int(file.read_text().split()[1]) / 1e9 for file in self._files)
        return time.monotonic(), server, ours

    def since(self, then: tuple[float, float, float]) -> float:
        passed, *waited = (now - before for now, before in zip(self.now(), then, strict=True))
        return passed - max(waited)


@dataclass(frozen=True)
class Question:
    """A request, and the body that each run's answer must have."""

    request: bytes
    answers: dict[str, bytes]


@dataclass(frozen=True)
class Answer:
    status: int
    head: bytes
    body: bytes


def request(method: str, path: str, body: Any = None, token: str = TOKEN) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: server\r\nAuthorization: Bearer {token}\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    return f"{head}\r\n".encode() + content


# --- questions


def questions(runs: dict[str, Path], number: int = 300, seed: int = 0) -> list[Question]:
    """Mostly lists of 20 for a user; also every other question that has an answer of its own in each run."""
    snapshots = {name: Snapshot.load(path) for name, path in runs.items()}
    draw = random.Random(seed)
    first = next(iter(snapshots.values()))
    users, items = list(first.user_rows), list(first.item_rows)
    for name, path in runs.items():
        check_lists(Recommender.load(path), snapshots[name], draw.sample(users, min(number, len(users))))
    made = []
    for turn in range(number):
        user, item, some = draw.choice(users), draw.choice(items), draw.sample(items, 10)
        method, path, body, answer = _asked(turn, user, item, some, [*draw.sample(users, 9), "nobody"])
        right = {name: as_sent(answer(snapshot)) for name, snapshot in snapshots.items()}
        made.append(Question(request(method, path, body), right))
    return made


def _asked(
    turn: int, user: str, item: str, some: list[str], many: list[str]
) -> tuple[str, str, Any, Callable[[Snapshot], Any]]:
    """Method, path and body of a question, and what a run answers to it."""
    listed = f"/v1/recommendations?user={quote(user)}"
    if turn % 10 < 7:
        return "GET", listed, None, lambda now: now.recommend(user, 20)
    if turn % 10 == 7:
        path = listed + "&k=10&why=true" + "".join(f"&exclude={quote(one)}" for one in some)
        return "GET", path, None, lambda now: now.recommend(user, 10, now.barred(some, None), True)
    if turn % 10 == 8:
        asked = {"users": many, "k": 5, "allow": some}
        return "POST", "/v1/recommendations", asked, lambda now: {
            "lists": [now.recommend(one, 5, now.barred((), some)) for one in many]
        }  # fmt: skip
    history = {"history": some, "k": 20}
    lookups: list[tuple[str, str, Any, Callable[[Snapshot], Any]]] = [
        ("POST", "/v1/recommendations/history", history, lambda now: now.from_history(some, 20)),
        ("GET", f"/v1/similar?item={quote(item)}", None, lambda now: now.similar(item, 20)),
        ("GET", f"/v1/history?user={quote(user)}", None, lambda now: now.history(user)),
        ("GET", f"/v1/items?q={quote(item[-2:])}", None, lambda now: now.find_items(item[-2:], 20)),
        ("GET", f"/v1/users?q={quote(user[-2:])}", None, lambda now: now.find_users(user[-2:], 20)),
    ]
    return lookups[turn // 10 % len(lookups)]


def as_sent(content: Any) -> bytes:
    return bytes(as_json(content).body)


def check_lists(recommender: Recommender, snapshot: Snapshot, users: Sequence[str]) -> None:
    """Lists are what the model's own scores say: no seen item, right scores, and no better item left out."""
    model, seen = recommender.lists.method.target, recommender.owned
    for user in users:
        row = snapshot.user_rows[user]
        with torch.inference_mode():
            scores = model.score_all(torch.tensor([row]))[0, 0].double().numpy().copy()
        scores[seen.items[seen.ptr[row] : seen.ptr[row + 1]]] = -np.inf
        entries = snapshot.recommend(user, 20)["items"]
        rows = [snapshot.item_rows[str(entry["item"])] for entry in entries]
        given = np.array([entry["score"] for entry in entries])
        assert len(set(rows)) == len(rows) == min(20, int(np.isfinite(scores).sum())), user
        assert np.allclose(given, scores[rows], rtol=1e-5, atol=1e-6), user
        assert np.all(np.diff(given) <= 0), user
        assert given[-1] >= np.delete(scores, rows).max() - 1e-5, user


# --- clients


class Line(asyncio.Protocol):
    """A connection that asks one thing after another; a library would take as long for it as the server does."""

    def __init__(self) -> None:
        self._said = bytearray()
        self._answer: asyncio.Future[Answer] | None = None
        self.transport: asyncio.Transport | None = None

    @classmethod
    async def to(cls, port: int) -> Line:
        _, line = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return line

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def ask(self, request: bytes) -> asyncio.Future[Answer]:
        assert self.transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        if self.is_closed:
            self.connection_lost(None)
        else:
            self.transport.write(request)
        return self._answer

    @property
    def is_closed(self) -> bool:
        return self.transport is None or self.transport.is_closing()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        self._said += data
        end = self._said.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._said[: end + 2])
        place = head.lower().find(b"content-length: ")
        length = int(head[place + 16 : head.find(b"\r", place)])
        if len(self._said) >= end + 4 + length:
            body = bytes(self._said[end + 4 : end + 4 + length])
            del self._said[: end + 4 + length]
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(Answer(int(head[9:12]), head, body))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the server ended the connection"))


@dataclass
class Tally:
    """What became of the requests of those who behave."""

    counts: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)  # of the right answers
    by_second: Counter[tuple[str, int]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, kind: str, at: float) -> None:
        self.counts[kind] += 1
        self.by_second[kind, int(at)] += 1

    def failed(self, what: str) -> None:
        self.counts["wrong"] += 1
        if len(self.wrong) < 20:
            self.wrong.append(what)


class Clients:
    """Ask at a rate, whether or not the server keeps up; every answer is looked at."""

    def __init__(self, port: int, asked: Sequence[Question], clock: Clock, seed: int = 0) -> None:
        self.port, self.asked, self.clock, self._draw = port, asked, clock, random.Random(seed)
        self._free: deque[Line] = deque()
        self._open = 0
        self.tally, self.began = Tally(), time.monotonic()
        self.serves: str | None = None  # the run that must answer now; None while a reload is under way
        self.turn = 0  # is another after each reload

    async def saturate(self, seconds: float, lines: int = 8) -> float:
        """Answers a second when each client asks again as soon as it has its answer."""
        before, end = self.tally.counts["right"], time.monotonic() + seconds

        async def ask_on() -> None:
            while time.monotonic() < end:
                await self.ask_one(self._draw.choice(self.asked))

        await asyncio.gather(*(ask_on() for _ in range(lines)))
        return (self.tally.counts["right"] - before) / seconds

    async def offer(self, rate: float, seconds: float) -> None:
        """So many requests a second, as evenly as the clock allows."""
        began, sent, tasks = time.monotonic(), 0, set()
        while (passed := time.monotonic() - began) < seconds:
            for _ in range(int(passed * rate) - sent):
                sent += 1
                if len(tasks) >= LINES:  # each of which has a connection, or will have one
                    self.tally.counts["no line free"] += 1
                    continue
                task = asyncio.ensure_future(self.ask_one(self._draw.choice(self.asked)))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            await asyncio.sleep(0.004)
        await asyncio.gather(*tasks)

    async def ask_one(self, question: Question) -> None:
        turn, serves, began = self.turn, self.serves, self.clock.now()
        try:
            async with asyncio.timeout(LONGEST):
                answer = await self._answer_to(question.request)
        except TimeoutError:
            self.tally.failed(f"no answer within {LONGEST:g} s to {question.request[:80]!r}")
            return
        except ConnectionError as error:
            self.tally.failed(f"{error}: {question.request[:80]!r}")
            return
        now = time.monotonic()
        if self.clock.since(began) > PATIENCE:
            self.tally.failed(f"no answer within {PATIENCE:g} s to {question.request[:80]!r}")
        elif answer.status == 503 and b"\r\nretry-after: 1\r\n" in answer.head and is_sound(answer):
            self.tally.add("refused", now - self.began)
        elif answer.status == 200 and is_sound(answer) and self._is_right(question, answer, turn, serves):
            self.tally.add("right", now - self.began)
            self.tally.seconds.append(now - began[0])
        else:
            self.tally.failed(f"{answer.status} {answer.body[:200]!r} to {question.request[:80]!r}")

    def _is_right(self, question: Question, answer: Answer, turn: int, serves: str | None) -> bool:
        """Of one run, whole; and of the run that is served, where no reload began or ended meanwhile."""
        if serves is not None and turn == self.turn:
            return answer.body == question.answers[serves]
        return answer.body in question.answers.values()

    async def _answer_to(self, sent: bytes) -> Answer:
        """On a free connection; where the server has closed it meanwhile, which it may, on another."""
        for _ in range(5):
            line = await self._line()
            with suppress(ConnectionError):
                answer = await line.ask(sent)
                self._free.append(line)
                return answer
            self._open -= 1
            self.tally.counts["sent again"] += 1
        raise ConnectionError("the server ended five connections")

    async def _line(self) -> Line:
        while self._free:
            line = self._free.pop()
            if not line.is_closed:
                return line
            self._open -= 1
        self._open += 1
        return await Line.to(self.port)

    def close(self) -> None:
        for line in self._free:
            line.close()


def is_sound(answer: Answer) -> bool:
    """With the headers that every answer has, and nothing about the server in it."""
    return EVERY_ANSWER in answer.head and not any(word in answer.body for word in TELLING)
