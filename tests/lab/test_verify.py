"""What `accord lab verify` reports: a page, sentence, tested difference or result that its raw results do not give."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from accord.comparing.results import keep_lines
from accord.errors import InputError
from accord_lab.labels import chosen
from accord_lab.leaderboards import leaderboard
from accord_lab.paper.reproduce import reproduce
from accord_lab.verify import Check, check_tests, check_users, verify
from comparisons import ask
from paper_runs import quiet, simulated


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("results")
    as_in_the_paper = partial(quiet, epochs=None)
    reproduce("overall", [simulated()], ["gmf"], ["normal"], as_in_the_paper, place / "published")
    return place


def find(name):
    return simulated() if name == "modcloth" else None


def outcomes(folder, training=False, look=find):
    return {check.what: (check.wrong, check.why) for check in verify(folder, look, training)}


def test_a_folder_as_it_was_written(folder):
    found = outcomes(folder, training=True)
    assert found.pop("published/overall.md") == (False, "")
    ((what, (wrong, why)),) = found.items()
    assert what.startswith("published/overall.jsonl: gmf + ")
    assert "2 seed(s) trained anew" in what
    assert not wrong
    now, before = why.split(";")[0].removeprefix("recall@20 ").split(", was ")
    assert now == before  # the same machine, the same bits


def test_a_changed_page_and_a_changed_result_are_found(folder, tmp_path):
    (tmp_path / "published").mkdir()
    raw, page = (folder / "published" / name for name in ("overall.jsonl", "overall.md"))
    (tmp_path / "published/overall.jsonl").write_bytes(raw.read_bytes())
    (tmp_path / "published/overall.md").write_text(page.read_text().replace("0.", "0.9", 1))
    wrong, why = outcomes(tmp_path)["published/overall.md"]
    assert wrong
    assert "by the raw results" in why
    lines = [json.loads(line) for line in raw.read_text().splitlines()]
    for line in lines:
        if line["method"] != "none":
            line["metrics"]["recall@20"] += 0.5
    (tmp_path / "published/overall.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    trained = [one for what, one in outcomes(tmp_path, training=True).items() if "trained anew" in what]
    assert [wrong for wrong, _ in trained] == [True]


def test_what_cannot_be_checked_is_said(folder, tmp_path):
    found = outcomes(folder, training=True, look=lambda _: None)
    assert [wrong for wrong, _ in found.values()] == [None, None]
    assert all("ACCORD_DATA" in why for _, why in found.values())
    with pytest.raises(InputError, match="no raw results"):
        outcomes(tmp_path)


def test_a_tested_difference_that_its_runs_do_not_have(data, tmp_path):
    leaderboard.run([data], ask, tmp_path, ["mf"], ["normal", "rce"], trials=0)
    file = tmp_path / "leaderboard.json"
    assert check_tests(tmp_path, file) == Check("leaderboard.json", False)
    content = json.loads(file.read_text())
    tests = content["demo"]["tests"]["normal"]
    tests["MF + R-CE"]["p_holm"] /= 2
    file.write_text(json.dumps(content))
    assert "Holm" in check_tests(tmp_path, file).why
    tests["MF + R-CE"]["difference"] += 0.01
    file.write_text(json.dumps(content))
    assert "its runs by" in check_tests(tmp_path, file).why


def test_tests_are_done_again_from_the_users(tmp_path):
    leaderboard.run([simulated()], ask, tmp_path, ["mf"], ["normal", "rce"], trials=0)
    file = tmp_path / "leaderboard.json"
    assert check_users(tmp_path, file).wrong is False
    content = json.loads(file.read_text())
    (entry,) = content.values()
    row = next(iter(entry["tests"]["best"].values()))
    row["low"] -= 0.01
    file.write_text(json.dumps(content))
    found = check_users(tmp_path, file)
    assert found.wrong
    assert "low is" in found.why
    (tmp_path / "leaderboard.per_user.parquet").unlink()
    assert check_users(tmp_path, file).wrong is None


def test_pages_of_labels_are_made_again_and_their_lines_are_no_runs(tmp_path):
    drawn = {"dataset": "demo", "start": 0.5} | {f"{way} {n}": 0.5 for way in ("chosen", "random") for n in (50, 250)}
    keep_lines(tmp_path / "chosen.jsonl", [drawn | {"chosen 50": 0.6}, drawn])
    chosen.render(tmp_path)
    found = outcomes(tmp_path, training=True)
    assert found == {
        "chosen.md": (False, ""),
        "chosen.jsonl, a cell trained anew": (None, "its lines are not single runs"),
    }
    page = tmp_path / "chosen.md"
    page.write_text(page.read_text().replace("0.5500", "0.9500"))
    assert outcomes(tmp_path)["chosen.md"][0]


def test_what_was_tested_is_what_ran():
    """Of the results in this repository: their differences by user are those of their runs."""
    file = Path(__file__).parents[2] / "docs" / "reproduction" / "corrected" / "leaderboard.json"
    found = check_tests(file.parent, file)
    assert not found.wrong, found.why
