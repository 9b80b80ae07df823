"""What happens to the run folder of a server while it serves."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import ClassVar

from traffic import Clients, Line, request


class Folder:
    """The run folder that the server watches: a link that points to one run or another, whole or broken."""

    STEPS = ("told", "watched", "overwritten", "cut", "gone", "half", "nonsense")
    TEXTS: ClassVar[dict[str, tuple[str, str]]] = {
        "told": ("another run, `POST /reload`", "served"),
        "watched": ("another run, found by `--watch`", "served"),
        "overwritten": ("overwritten by another run, file by file", "served once whole"),
        "cut": ("weights cut short in place", "409, the old run serves on"),
        "gone": ("the folder deleted", "409, the old run serves on"),
        "half": ("a run without `metrics.json`", "409, the old run serves on"),
        "nonsense": ("random bytes instead of each file in turn", "409, the old run serves on"),
    }

    def __init__(self, link: Path, runs: dict[str, Path], clients: Clients) -> None:
        self.link, self.runs, self.clients = link, runs, clients
        self.now = next(iter(runs))
        self.done: Counter[str] = Counter()
        self.tried: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._copies = 0

    async def turn(self, pause: float) -> None:
        """Each step in turn, again and again."""
        while True:
            for step in self.STEPS:
                await asyncio.sleep(pause)
                self.tried[step] += 1
                trouble = await getattr(self, step)()
                if trouble is None:
                    self.done[step] += 1
                else:
                    self.wrong.append(f"{step}: {trouble}")

    async def told(self) -> str | None:
        self._point_to(self.runs[self._other()], self._other())
        return await self._reload(200, self.now)

    async def watched(self) -> str | None:
        self._point_to(self.runs[self._other()], self._other())
        return await self._becomes(self.now)

    async def overwritten(self) -> str | None:
        copy = self._copy(self.now)
        self._point_to(copy, self.now)
        if trouble := await self._reload(200, self.now):
            return trouble
        other = self._other()
        self._expect(None)
        for path in sorted(self.runs[other].iterdir()):  # as cp does it: metrics.json before the weights
            shutil.copyfile(path, copy / path.name)
            await asyncio.sleep(0.3)
        self.now = other
        return await self._becomes(other)

    async def cut(self) -> str | None:
        copy = self._copy(self.now)
        self._point_to(copy, self.now)
        if trouble := await self._reload(200, self.now):
            return trouble
        os.truncate(copy / "model.safetensors", 1000)
        return await self._reload(409, self.now)

    async def gone(self) -> str | None:
        shutil.rmtree(self._copy(self.now))
        self._point_to(self.link.parent / "nowhere", self.now)
        return await self._reload(409, self.now)

    async def half(self) -> str | None:
        copy = self._copy(self._other())
        (copy / "metrics.json").unlink()
        self._point_to(copy, self.now)
        return await self._reload(409, self.now)

    async def nonsense(self) -> str | None:
        names = ("config.json", "metrics.json", "model.safetensors", "users.parquet", "items.parquet", "seen.parquet")
        copy = self._copy(self._other())
        (copy / names[self.tried["nonsense"] % len(names)]).write_bytes(os.urandom(5000))
        self._point_to(copy, self.now)
        return await self._reload(409, self.now)

    def _other(self) -> str:
        return next(name for name in self.runs if name != self.now)

    def _copy(self, run: str) -> Path:
        for old in self.link.parent.glob("copy-*"):
            if self.link.resolve() != old:
                shutil.rmtree(old)
        self._copies += 1
        copy = self.link.parent / f"copy-{self._copies}"
        shutil.copytree(self.runs[run], copy)
        return copy

    def _point_to(self, folder: Path, run: str) -> None:
        """Both runs' answers are right while it is not known whether the server has found the other one."""
        self._expect(None if run != self.now else self.now)
        self.now = run
        new = self.link.with_name("new-link")
        new.symlink_to(folder)
        new.replace(self.link)

    def _expect(self, run: str | None) -> None:
        self.clients.turn += 1
        self.clients.serves = run

    async def _ask(self, sent: bytes) -> tuple[int, str]:
        """As often as it takes: the server is overloaded, and says so."""
        for _ in range(1000):
            line = await Line.to(self.clients.port)
            try:
                answer = await line.ask(sent)
            finally:
                line.close()
            if answer.status != 503:
                return answer.status, answer.body.decode()
            await asyncio.sleep(0.05)
        return 503, "refused a thousand times"

    async def _reload(self, status: int, run: str) -> str | None:
        given, body = await self._ask(request("POST", "/reload", {}))
        if given != status or (status == 200 and json.loads(body)["model"] != run):
            return f"{given} {body[:200]}"
        self._expect(run)
        return None

    async def _becomes(self, run: str) -> str | None:
        about = ""
        for _ in range(300):
            _, about = await self._ask(request("GET", "/v1/about"))
            if json.loads(about).get("model") == run:
                self._expect(run)
                return None
            await asyncio.sleep(0.1)
        return f"still {about[:200]}"
