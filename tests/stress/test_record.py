"""What a campaign writes down, and what it prints."""

from __future__ import annotations

import json
import re

from record import Found, Table, stamp, table_as_text


def test_a_table_is_aligned_and_ends_with_its_notes():
    table = Table("Kills", ["what", "kills"], [["train", 200], ["serve", 7]], ["All of them."])
    assert table_as_text(table).splitlines() == ["Kills:", "what   kills", "train  200", "serve  7", "All of them."]


def test_what_was_found_is_a_file_that_can_be_read_again(tmp_path):
    found = Found("Title", ["Run it."], [Table("T", ["a"], [["μ"]])], ["picture.svg"], made=stamp(7))
    path = found.write("name", tmp_path / "new")
    assert path == tmp_path / "new" / "name.json"
    assert json.loads(path.read_text(encoding="utf-8")) == {
        "title": "Title",
        "how": ["Run it."],
        "tables": [{"title": "T", "heads": ["a"], "rows": [["μ"]], "notes": [], "made": None}],
        "figures": ["picture.svg"],
        "made": stamp(7),
    }
    assert "μ" in path.read_text(encoding="utf-8")


def test_a_record_says_commit_date_and_seed():
    said = Found("Title", [], []).made
    assert re.fullmatch(r"[0-9a-f]{7,}\+?|unknown\+?", said["commit"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", said["date"])
    assert said["seed"] is None
    assert stamp(7)["seed"] == 7
