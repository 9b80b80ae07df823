"""Hashes of what training gives: the same for the same bits, and a difference is named."""

from __future__ import annotations

import json

import bits
import numpy as np
import pytest

import accord
from helpers import small_data


def test_every_model_is_there_with_every_method_and_protocol():
    cases = list(bits.cases())
    assert len(cases) == len(set(cases)) == 2 * (2 * len(bits.LEARNED) * len(bits.METHODS) + len(bits.SOLVED))
    assert ("gmf", "deca-p", "published", 3) in cases


def test_one_bit_makes_another_hash():
    one = np.array([1.0, 2.0])
    other = one.copy()
    other[1] = np.nextafter(2.0, 3.0)
    assert bits.digest(one.tobytes()) == bits.digest(one.copy().tobytes())
    assert bits.digest(one.tobytes()) != bits.digest(other.tobytes())


def test_the_same_training_has_the_same_hashes_and_another_seed_others():
    def hashes(seed):
        made = accord.fit(small_data(), "mf", "normal", seeds=[seed], epochs=1, device="cpu")
        return bits.found_by(made, small_data())

    first = hashes(3)
    assert set(first) == {"weights", "metrics", "lists", "posterior"}
    assert hashes(3) == first
    assert hashes(4)["weights"] != first["weights"]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    path = tmp_path / "bits.json"
    monkeypatch.setattr(bits, "measured", lambda: {"mf": {"weights": "a", "lists": "b"}})
    monkeypatch.setattr("sys.argv", ["bits.py", "write", str(path)])
    assert bits.main() == 0
    monkeypatch.setattr("sys.argv", ["bits.py", "check", str(path)])
    return path


def test_a_difference_is_named(kept, monkeypatch, capsys):
    assert bits.main() == 0
    assert capsys.readouterr().out == "1 cases, 0 differ\n"
    monkeypatch.setattr(bits, "measured", lambda: {"mf": {"weights": "a", "lists": "c"}})
    assert bits.main() == 1
    assert capsys.readouterr().out == "1 cases, 1 differ\nmf: lists\n"


def test_bits_of_another_machine_are_not_compared(kept, capsys):
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"machine": "another"}))
    assert bits.main() == 2
    assert "cannot be compared" in capsys.readouterr().out


def test_sentences_may_change_and_numbers_may_not():
    one = {"findings": [{"title": "Nobody", "count": 3, "examples": ["a", "b"]}], "rate": 0.5, "time": None}
    other = {"findings": [{"title": "No user", "count": 3, "examples": ["a"]}], "rate": 0.5, "time": None}
    assert bits.without_words(one) == bits.without_words(other) == {
        "findings": [{"count": 3, "examples": []}], "rate": 0.5, "time": None,
    }  # fmt: skip
    assert bits.without_words(one) != bits.without_words(one | {"rate": 0.6})
