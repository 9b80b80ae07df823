"""A fixed split: what is held out to choose by, and a page with published rows beside ours."""

from __future__ import annotations

import json

import numpy as np
import pytest

from accord.errors import InputError
from accord_lab import bars
from accord_lab.commands.bars import bars as command


@pytest.fixture
def gowalla(tmp_path):
    """A small log in BARS' layout, under the name of a large one."""
    folder, rng = tmp_path / "gowalla", np.random.default_rng(0)
    folder.mkdir()
    pairs = np.argsort(rng.random((60, 40)) + np.arange(40) / 40, axis=1)[:, :24]
    for part, items in (("train.rating", pairs[:, :20]), ("test.negative", pairs[:, 20:])):
        lines = [f"{user}\t{item}\n" for user, row in enumerate(items) for item in row]
        (folder / f"gowalla.{part}").write_text("".join(lines))
    return folder


def test_a_tenth_of_every_users_training_pairs_is_chosen_by(gowalla):
    data = bars.read(gowalla)
    assert (data.csr(data.train).counts == 18).all()
    assert (data.csr(data.valid).counts == 2).all()
    assert (data.csr(data.test).counts == 4).all()
    both = data.csr(data.before_test(data.valid).train)
    assert len(both.items) == 60 * 20
    assert not both.contains(data.csr(data.test).users, data.csr(data.test).items).any()


def test_what_was_chosen_is_fitted_again_on_all_and_stands_beside_published_rows(gowalla, tmp_path, capsys):
    out = tmp_path / "out"
    command(str(gowalla), budget=1, device="cpu", out=out)
    (line,) = [json.loads(text) for text in (out / "bars.jsonl").read_text().splitlines()]
    assert line["train"] == 60 * 20
    assert 0 < line["ndcg@20"] <= 1
    assert line["before"] != {name: line[name] for name in line["before"]}
    page = (out / "bars.md").read_text()
    assert "UltraGCN" in page
    assert f"{line['recall@20']:.4f}" in page
    (out / "bars.md").unlink()
    command("anything", device="cpu", out=out, render_only=True)
    assert (out / "bars.md").read_text() == page


def test_a_folder_without_a_fixed_split_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCORD_DATA", str(tmp_path))
    with pytest.raises(InputError, match="give the folder of the log"):
        command("nowhere", out=tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="give the folder of a split"):
        command("empty", out=tmp_path)
