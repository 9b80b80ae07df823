"""The audit folder, and the clean log of a finished audit."""

from __future__ import annotations

import html
import json

import pyarrow.parquet as pq
import pytest

from accord.auditing import result
from accord.auditing.result import WORK, is_unfinished
from accord.data.read import read_table


def test_the_folder_holds_what_was_promised(made):
    found, folder = made
    names = {path.name for path in (folder / "audit").iterdir()}
    tables = {"interactions.parquet", "users.parquet", "items.parquet"}
    assert names == tables | {"summary.json", "report.html", "to_label.csv"}
    assert json.loads((folder / "audit" / "summary.json").read_text()) == found.summary
    for name in ("interactions", "users", "items"):
        assert pq.read_table(folder / "audit" / f"{name}.parquet").equals(getattr(found, name))


def test_a_clean_log_is_read_like_the_log(made):
    found, folder = made
    done = found.write_clean(folder / "clean.csv", drop_below=0.3)
    again, _ = read_table(folder / "clean.csv", merge=False)
    assert len(again) == done.rows == 7_002 - done.dropped
    header = (folder / "clicks.csv").read_text().splitlines()[0].replace('"', "")
    assert (folder / "clean.csv").read_text().splitlines()[0] == header


def test_a_folder_is_finished_when_its_summary_is_written(made, tmp_path, monkeypatch):
    found, _ = made
    (tmp_path / WORK).mkdir()
    assert is_unfinished(tmp_path)

    def full(*_args):
        raise OSError("no space left")

    monkeypatch.setattr(result, "write_page", full)
    with pytest.raises(OSError, match="no space"):
        found.save(tmp_path)
    assert is_unfinished(tmp_path)
    assert not (tmp_path / "summary.json").exists()
    monkeypatch.undo()
    assert found.save(tmp_path) == tmp_path
    assert not is_unfinished(tmp_path)
    assert (tmp_path / "summary.json").exists()


def test_it_shows_what_it_is(made):
    found = made[0]
    noise, data = found.summary["noise"], found.summary["data"]
    rate = f"noise rate {noise['rate']:.0%} ({noise['low']:.0%} to {noise['high']:.0%})"
    assert repr(found) == f"Audit({data['name']}: {data['interactions']:,} interactions; {rate})"
    page = found._repr_html_()
    assert html.escape(found.summary["health"]["findings"][0]["title"]) in page
    assert html.escape(found.summary["verdict"]["sentence"]) in page
