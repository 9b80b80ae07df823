"""A small run folder to serve, an audit folder that belongs to it, and a server on a port of its own."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
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


@pytest.fixture(scope="session")
def audit(run: Path) -> Path:
    """An audit folder of the same data, as docs/audit.md describes it."""
    seen = pq.read_table(run / "seen.parquet")
    drawn = np.random.default_rng(0).random(len(seen))
    low, high = np.clip(drawn - 0.1, 0, 1), np.clip(drawn + 0.1, 0, 1)
    judged = pa.table(
        {
            "user": seen["user"],
            "item": seen["item"],
            "p_real": drawn,
            "low": low,
            "high": high,
            "basis": ["models"] * len(seen),
        }
    )
    order = np.argsort(drawn)
    pick = ["user", "item", "p_real", "low", "high"]
    group = {"label": "1 to 5", "from": 1, "to": 5, "interactions": 100, "noise_rate": 0.4, "low": 0.3, "high": 0.5}
    finding = {
        "name": "bots",
        "count": 1,
        "of": 60,
        "title": f"1 user of 60 {SCRIPT}",
        "examples": [SCRIPT],
        "advice": "Look.",
    }
    summary = {
        "accord": accord.__version__,
        "kind": "audit",
        "data": {"name": "clicks", "users": 60, "items": 40, "interactions": len(seen)},
        "health": {"findings": [{**finding, "level": level} for level in ("serious", "notice", "fine")]},
        "noise": {
            "rate": 0.4, "low": 0.3, "high": 0.5, "suspects": int((drawn < 0.5).sum()),
            "by_popularity": [group], "by_activity": [group], "by_time": None,
            "noisiest": judged.take(order[:20]).select(pick).to_pylist(),
            "surest": judged.take(order[::-1][:20]).select(pick).to_pylist(),
            "noisiest_users": [], "noisiest_items": [],
        },
        "detection": None,
        "verdict": {"sentence": "Denoising does not help here.", "helps": False},
    }  # fmt: skip
    folder = run.parent / "audit"
    folder.mkdir()
    pq.write_table(judged, folder / "interactions.parquet")
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


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


def make_holder(run: Path, audit: Path | None = None, refusals: Path | None = None) -> Holder:
    return Holder(run, Meters(), audit, refusals=refusals)


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
