"""docs/walk.md: its commands run, one after the other, and a recommender is served, updated and taught by labels."""

from __future__ import annotations

import json
import re
import socket
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import accord
from documents import BLOCK, ROOT, run
from helpers import script

PAGE = (ROOT / "docs" / "walk.md").read_text(encoding="utf-8")


@pytest.fixture
def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def test_every_command_has_its_seconds() -> None:
    walk = script(ROOT / "docs" / "record_walk.py", "record_walk")
    timed = [match for match in walk.TIMED.finditer(walk.commands(PAGE)) if not match[1].endswith("&")]
    assert len(timed) >= 10
    assert [match[0] for match in timed if not re.search(r" # \d+\.\d s$", match[0])] == []


def test_the_walk(tmp_path: Path, free_port: int) -> None:
    walk = script(ROOT / "docs" / "record_walk.py", "record_walk")
    (make,) = (code for language, code in BLOCK.findall(PAGE) if language == "python")
    assert run("python", make, tmp_path) == ""
    assert "--budget 2" in PAGE
    code = walk.commands(PAGE).replace("--budget 2", "--budget 0.5").replace("127.0.0.1:8000", f"127.0.0.1:{free_port}")
    serve = f"{sys.executable} -m accord serve --port {free_port}"  # a forked command would not hear of `kill`
    said = run("bash", code.replace("accord serve", serve), tmp_path)

    assert "auto chose" in said
    assert "of it for the labels) of 0.5 s" in said
    assert said.count("3 interactions, 3,003 in all; 201 users (1 new)") == 2, "with labels too"
    answers = [json.loads(found) for found in re.findall(r'\{"user":"\w+","known".*?\]\}', said)]
    assert [(one["user"], one["source"], len(one["items"])) for one in answers] == [
        ("u0002", "model", 3), ("newcomer", "model", 3),
    ]  # fmt: skip
    assert re.search(
        r"^accord: reloaded runs/clicks: clicks, consensus$", (tmp_path / "serve.log").read_text(), re.MULTILINE
    )
    assert len(pq.read_table(tmp_path / "lists.parquet")) == 200 * 20
    assert (tmp_path / "runs" / "clicks" / "report.html").exists()
    refused = (tmp_path / "refused.csv").read_text().splitlines()[1].split(",")
    assert [word.strip('"') for word in refused[:2]] == ["u0002", "i0050"]
    rec = accord.Recommender.load(tmp_path / "runs" / "labelled")
    assert "i0050" not in rec.recommend(["u0002"], k=80)["item"].to_pylist()
