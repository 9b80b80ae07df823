"""A small run folder to serve, and a server on a port of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
import torch
import uvicorn
from fastapi import FastAPI

import accord
from accord.serve.api import make_app
from accord.serve.guard import Meters, Rules
from accord.serve.server import configuration, listen
from accord.serve.snapshots import Holder

SCRIPT = "<img src=x onerror=\"document.title='broken'\"><script>alert(1)</script>"


def clicks() -> accord.Dataset:
    """Simulated: 60 users, 40 items; a user and the titles of odd items have HTML in them, one has no title."""
    made = accord.simulate(users=60, items=40, interactions=900, seed=1, liked=0.4).dataset
    rows = pa.concat_tables([part.table.select(["user", "item"]) for part in (made.train, made.valid, made.test)])
    users = ["<b>bold</b>" if user == "u0001" else user for user in rows.column("user").to_pylist()]
    items = made.items.ids.to_pylist()
    titles = [None if item == "i0003" else f"Film {item} {SCRIPT if int(item[1:]) % 2 else 'é'}" for item in items]
    table = pa.table({"user": users, "item": rows.column("item")})
    return accord.load(table, items=pa.table({"id": items, "title": titles}))


def train(folder: Path, model: str = "gmf", epochs: int = 3, seed: int = 2019) -> Path:
    accord.fit(clicks(), model, "normal", epochs=epochs, seeds=[seed], out=folder)
    torch.set_flush_denormal(False)  # training sets it, and hypothesis cannot do without small numbers
    return folder


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder that no test changes."""
    return train(tmp_path_factory.mktemp("serve") / "run")


class Client:
    """Asks an application without a network, one request after another."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as asks:
                return await asks.request(method, path, **options)

        return asyncio.run(ask())

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)


def make_holder(run: Path, refusals: Path | None = None) -> Holder:
    return Holder(run, Meters(), refusals=refusals)


@contextmanager
def serving(holder: Holder, rules: Rules | None = None, watch: bool = False) -> Iterator[str]:
    """The address of a server that runs in a thread."""
    app = make_app(holder, rules or Rules(), watch)
    server, listening = uvicorn.Server(configuration(app)), listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
