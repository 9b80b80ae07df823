"""Some seconds of fuzzing, and that the fuzzer can fail."""

from __future__ import annotations

import random
import sys

import inputs
import pytest
from fuzz.generated import KINDS, request
from fuzz.targets import TARGETS, Api, Expressions, Parquet, Text, changed
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.cli import app


@pytest.fixture(scope="module", params=TARGETS)
def target(request):
    made = TARGETS[request.param]()
    yield made
    made.close()


def test_seeds_and_what_is_near_them(target):
    """Without atheris too: every seed, and each with something changed, cut off or put in."""
    for seed in target.seeds:
        for data in (seed, seed[: len(seed) // 2], seed + b"\0\xff", seed.replace(b"1", b"\xff"), seed[:1] + seed):
            target.one(data)


@pytest.mark.parametrize(("name", "guides"), [("text", "accord"), ("api", "accord.serve")])
def test_guided_by_coverage(name, guides):
    pytest.importorskip("atheris")
    from fuzz.harness import fuzz

    found = fuzz(name, seconds=1, guides=guides)
    assert found.findings == []
    assert found.executions > len(TARGETS[name]().seeds)
    assert found.edges > 50


def test_a_finding_is_found(tmp_path):
    pytest.importorskip("atheris")
    from fuzz.harness import fuzz

    found = fuzz("expressions", seconds=1, broken=True)
    assert "AssertionError" in found.findings[0]


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 5))
def test_any_bytes_as_a_log(data, kind):
    target = Text()
    target.one(bytes([kind]) + data)
    target.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 255), st.integers(-(2**63), 2**63 - 1)), max_size=3))
def test_any_lie_in_a_footer(lies):
    target = Parquet()
    target.one(b"\1" + b"".join(bytes([which]) + value.to_bytes(8, "little", signed=True) for which, value in lies))
    target.close()


@given(st.text(max_size=60))
def test_any_expression(text):
    target = Expressions()
    target.one(text.encode("utf-8", "surrogatepass"))
    target.close()


def test_every_target_is_in_the_campaign():
    assert set(inputs.TARGETS) == set(TARGETS)


def test_a_file_is_changed_where_it_is_said():
    assert changed(b"abc", b"") == b"abc"
    assert changed(b"abc", b"\1\0\1") == b"acc"
    assert changed(b"abc", b"\4\0\1") == b"a"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_generated_is_read_or_refused_in_a_sentence(kind, tmp_path, monkeypatch, capfd):
    codes = []
    for place in range(12):
        folder = tmp_path / str(place)
        folder.mkdir()
        monkeypatch.setattr(sys, "argv", ["accord", *KINDS[kind](random.Random(f"2 {kind} {place}"), folder)])
        with pytest.raises(SystemExit) as ended:
            app.main()
        said = capfd.readouterr().err.splitlines()
        codes.append(ended.value.code)
        assert codes[-1] in ((2,) if (folder / "run" / "manifest.json").exists() else (0, 2))
        assert codes[-1] == 0 or said[-1].startswith("accord: ")
    assert 2 in codes


def test_requests_that_are_generated():
    target = Api()
    for place in range(60):
        target.generated(request(random.Random(place)))
    target.close()
    assert target.answers[True] > 10
    assert target.answers[False] > 10
