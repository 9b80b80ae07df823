"""A log that users chose and a little random exposure: what rows may see, and what is measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accord.errors import InputError
from accord_lab.commands.studies import exposure as command
from accord_lab.labels import exposure

PAGE = Path(__file__).parents[3] / "docs/reproduction/exposure"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """40 users who rate what they like, and random items; items and users differ in how much is liked."""
    monkeypatch.setattr(exposure, "PENALTIES", (4.0,))
    monkeypatch.setattr(exposure, "MOST", 20)
    monkeypatch.setattr(exposure, "SHARE", 0.2)
    rng = np.random.default_rng(0)
    liking = rng.normal(size=(40, 1)) + rng.normal(size=(1, 30)) + 0.3 * rng.normal(size=(40, 30))
    place = tmp_path / "shop"
    place.mkdir()
    for name, bias, size in (("user", 1.0, 10), ("random", 0.0, 8)):
        drawn = np.argsort(-bias * liking - rng.gumbel(size=liking.shape), axis=1)[:, :size]
        rows = [f"{u},{i},{3 + 2 * (liking[u, i] > 0)}" for u in range(40) for i in drawn[u]]
        (place / f"{name}.csv").write_text("\n".join(["user,item,rating", *rows]) + "\n")
    return place


def test_every_row_is_measured_and_the_page_comes_from_the_lines(folder, tmp_path):
    out = tmp_path / "out"
    command(str(folder), draws=1, device="cpu", out=out)
    lines = [json.loads(text) for text in (out / "exposure.jsonl").read_text().splitlines()]
    assert [line["draw"] for line in lines] == [0]
    by_name = {(row["row"], row["exposed"]): row for row in lines[0]["rows"]}
    assert by_name["Accord, p_real", True]["auc"] > by_name["popularity", False]["auc"]
    assert all(0 <= row[name] <= 1 for row in by_name.values() for name in exposure.FIGURES)
    page = (out / "exposure.md").read_text()
    assert all(row.replace("_", "\\_") in page for row, _ in by_name)
    (out / "exposure.md").unlink()
    command("anything", device="cpu", out=out, render_only=True)
    assert (out / "exposure.md").read_text() == page


def test_no_row_sees_the_test_and_only_those_that_say_so_the_exposure(folder):
    given = exposure.read(folder).drawn(0)
    without = exposure.by_labels(given, False)

    def rows(given):
        return exposure.of_draw(given, 0, "cpu", without)

    asked = rows(given)
    for part, changes in ((2, set()), (0, {row for row in asked if row[1]})):
        other = rows(replace(given, real=np.where(given.part == part, ~given.real, given.real)))
        assert {row for row in asked if not np.array_equal(asked[row], other[row])} == changes


def test_random_pairs_of_the_log_are_left_out_and_the_parts_are_as_large_as_they_say(folder):
    given = exposure.read(folder).drawn(0)
    assert not given.chosen.contains(given.users, given.items).any()
    both = [
        {tuple(row.split(",")[:2]) for row in (folder / f"{n}.csv").read_text().splitlines()[1:]}
        for n in ("user", "random")
    ]
    assert len(given.users) == len(both[1] - both[0]) < len(both[1])
    assert np.bincount(given.part).tolist()[:2] == [round(0.2 * len(given.users))] * 2


def test_ndcg_is_of_users_who_like_something_in_the_test(folder):
    given = replace(
        exposure.read(folder), users=np.array([0, 0, 0, 1, 1]), items=np.arange(5), part=np.array([2, 2, 2, 2, 0]),
        real=np.array([False, True, False, False, True]),
    )  # fmt: skip
    assert given.ndcg(np.array([3.0, 2.0, 1.0, 0.0, 9.0])) == pytest.approx(1 / np.log2(3))


def test_a_folder_without_both_files_is_refused(folder, tmp_path):
    (folder / "random.csv").write_text("user,item\n1,1\n2,1\n2,2\n")
    with pytest.raises(InputError, match=r"random.csv needs a column rating"):
        exposure.read(folder)
    with pytest.raises(InputError, match=r"needs user.csv, the log, and random.csv"):
        exposure.read(tmp_path)


def test_the_committed_page_is_what_its_raw_lines_say_and_p_real_is_above_every_row(tmp_path):
    (tmp_path / "exposure.jsonl").write_text((PAGE / "exposure.jsonl").read_text())
    (table,) = exposure.render(tmp_path)
    assert (tmp_path / "exposure.md").read_text() == (PAGE / "exposure.md").read_text()
    for column in (3, 4):
        best = max(table.rows, key=lambda row: float(row[column].split()[0]))
        assert best[1:3] == ("Accord, p_real", "yes")
