"""Whether denoising helps, in one sentence."""

from __future__ import annotations

import pytest

from accord.auditing.interaction_log import open_log
from accord.auditing.verdict import auto_in_words, in_words, verdict
from accord.evaluation.significance import Comparison
from helpers import dataset


@pytest.mark.parametrize(
    ("low", "high", "p", "helps", "words"),
    [
        (0.01, 0.03, 0.001, True, "Denoising helps here: DeCA(p)"),
        (-0.01, 0.03, 0.2, False, "does not show that denoising helps here"),
        (-0.03, -0.01, 0.001, False, "does harm here"),
        (0.01, 0.03, 0.2, False, "does not show that denoising helps here"),
    ],
)
def test_the_verdict_in_words(low, high, p, helps, words):
    middle = (low + high) / 2
    means = {"popularity": 0.05, "ease": 0.15, "gmf + normal": 0.2, "gmf + deca": 0.1, "gmf + deca-p": 0.2 + middle}
    tests = {name: Comparison(middle, low, high, p, p, 0.1, 0.1) for name in ("gmf + deca", "gmf + deca-p")}
    found, sentence = in_words(means, tests)
    assert found is helps
    assert words in sentence
    assert "EASE" not in sentence
    assert "Simple EASE" in in_words(means | {"ease": 0.3}, tests)[1]


@pytest.mark.parametrize(
    ("low", "high", "p", "words"),
    [
        (
            0.01,
            0.03,
            0.001,
            "Train the default, auto: it is better than ease, the best of the others, 0.17",
        ),
        (-0.01, 0.03, 0.2, "Train the default, auto: it is as good as ease, the best of the others"),
        (-0.03, -0.01, 0.001, "Train ease: the default, auto, is worse here"),
    ],
)
def test_auto_is_what_to_train_unless_it_is_worse(low, high, p, words):
    test = Comparison((low + high) / 2, low, high, p, p, 0.1, 0.1)
    assert words in auto_in_words("ease", {"ease": 0.15, "auto": 0.17}, test)


def test_where_ease_is_too_large_sparse_ease_stands_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr("accord.auditing.verdict.MOST_ITEMS", 3)
    asked = []

    def compared(request, cells, results):
        asked.extend(cell.name for cell in cells)
        raise InterruptedError

    monkeypatch.setattr("accord.auditing.verdict.compare", compared)
    log = open_log(dataset(3, 4, [(0, 0), (1, 1), (2, 2)], [(0, 1)], [(1, 2), (2, 3)]))
    with pytest.raises(InterruptedError):
        verdict(log, tmp_path, device="cpu")
    assert "sparse-ease" in asked
    assert "ease" not in asked
    means = {"popularity": 0.05, "sparse-ease": 0.3, "gmf + normal": 0.2, "gmf + deca": 0.1, "gmf + deca-p": 0.2}
    test = Comparison(0.0, -0.1, 0.1, 0.5, 0.5, 0.0, 0.0)
    assert "Simple EASE" in in_words(means, {name: test for name in means if name != "gmf + normal"})[1]


def test_with_one_user_to_test_on_there_is_no_verdict(tmp_path):
    log = open_log(dataset(3, 4, [(0, 0), (1, 1), (2, 2)], [(0, 1)], [(1, 2)]))
    assert verdict(log, tmp_path, device="cpu") is None
    assert not list(tmp_path.iterdir())
