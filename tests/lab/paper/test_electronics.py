"""The training set of the paper's Electronics, put together from a public table."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from accord.data import catalog
from accord.data.load import load_named
from accord.errors import InputError
from accord_lab.paper import electronics


def test_electronics_is_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.delenv("ACCORD_DATA", raising=False)
    monkeypatch.setenv("ACCORD_CACHE", str(cache))
    parts = {"valid.rating": "1\t1\t5\n2\t2\t1\n", "test.negative": "3\t1\t5\n", "test.noisy": "3\t1\t5\n3\t2\t2\n"}
    hashes = {part: hashlib.sha256(text.encode()).hexdigest() for part, text in parts.items()}
    monkeypatch.setitem(catalog.ENTRIES, "electronics", replace(catalog.entry("electronics"), split=hashes))
    monkeypatch.setattr(electronics, "ROWS", 8)
    held_out = "1,1,5.0\n2,2,1.0\n1,3,5.0\n2,3,2.0\n"
    table = "item_id,user_id,rating,timestamp\n" + "".join(
        f"{line},2001-01-01\n" for line in (held_out + "1,1,4.0\n2,1,3.0\n3,3,5.0\n1,2,1.0\n").split()
    )

    def serve(url: str, target: Path, *_: object) -> Path:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = url.rpartition("/electronics_5.")[2]
        target.write_text(table if url == electronics.TABLE else parts[part])
        return target

    monkeypatch.setattr(catalog, "download", serve)
    monkeypatch.setattr(electronics, "download", serve)
    with pytest.raises(InputError, match=r"lacks the training set; put electronics\.train\.rating"):
        catalog.get("electronics")
    electronics.complete("electronics")
    electronics.complete("modcloth")  # of which nothing is put together
    dataset = load_named("electronics")
    assert sorted(dataset.train.users.to_pylist()) == [1, 1, 2, 3]
    assert sorted(dataset.train.column("value")) == [1.0, 3.0, 4.0, 5.0]
    assert not (cache / "electronics" / "df_electronics.csv").exists()


def test_electronics_must_be_the_file_that_was_split() -> None:
    source = [(1, 1, 5.0), (2, 2, 4.0), (3, 3, 3.0), (2, 2, 4.0)]
    assert electronics.without(source, [(2, 2, 4.0)], 4, "x.csv") == [(1, 1, 5.0), (3, 3, 3.0), (2, 2, 4.0)]
    with pytest.raises(InputError, match=r"x\.csv has 4 rows, not 3"):
        electronics.without(source, [], 3, "x.csv")
    with pytest.raises(InputError, match=r"x\.csv lacks 1 of the 1 held-out rows"):
        electronics.without(source, [(2, 2, 5.0)], 4, "x.csv")
