"""The files behind a page: an error says what is missing."""

from __future__ import annotations

import json

import pytest

from accord.comparing.results import run_key
from accord.errors import InputError
from accord_lab.leaderboards.leaderboard import read_entries, read_page_files

LINE = {"dataset": "d", "data": "x", "model": "mf", "method": "normal", "seed": 1, "protocol": {}, "settings": {}}


@pytest.mark.parametrize("rows", [[{"runs": [run_key(LINE)]}], {"MF": [run_key(LINE)]}])
def test_a_run_that_is_named_must_be_there(tmp_path, rows):
    assert read_entries(tmp_path, "board") == {}
    with pytest.raises(InputError, match="nothing was finished in this folder; run without --render-only"):
        read_page_files(tmp_path, "board")
    (tmp_path / "board.json").write_text(json.dumps({"d": {"rows": rows}}))
    with pytest.raises(InputError, match=r"board\.jsonl lacks runs of d that board\.json names"):
        read_page_files(tmp_path, "board")
    (tmp_path / "board.jsonl").write_text(json.dumps(LINE) + "\n")
    assert read_page_files(tmp_path, "board") == ({"d": {"rows": rows}}, {run_key(LINE): LINE})
    (tmp_path / "board.json").write_text(json.dumps({"d": {"rows": rows, "told": "another"}}))
    with pytest.raises(InputError, match="lacks runs"):
        read_page_files(tmp_path, "board")
