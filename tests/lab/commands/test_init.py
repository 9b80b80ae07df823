"""The lab without its extra."""

from __future__ import annotations

import pytest

from helpers import run_python


@pytest.mark.parametrize("words", ["", "--help", "verify docs", "leaderboard demo --seeds 3"])
def test_without_matplotlib_one_sentence_says_what_to_install(words):
    done = without_matplotlib("lab", *words.split())
    assert done.returncode == 2
    assert done.stderr == (
        "accord: the command 'lab' cannot be loaded: matplotlib is not installed; run pip install 'accord[lab]'.\n"
    )


def test_a_comparison_needs_no_matplotlib():
    done = without_matplotlib("compare", "demo", "--models", "gfm")
    assert (done.returncode, done.stderr) == (2, "accord: unknown model 'gfm'; did you mean 'gmf'?\n")


def without_matplotlib(*words):
    given = ["accord", *words]
    code = "import sys; sys.modules['matplotlib'] = None; from accord.__main__ import main; "
    return run_python("-c", f"{code}sys.argv = {given}; main()")
