"""The lab without its extra."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("words", ["", "--help", "verify docs", "leaderboard demo --seeds 3"])
def test_without_matplotlib_one_sentence_says_what_to_install(words):
    given = ["accord", "lab", *words.split()]
    code = "import sys; sys.modules['matplotlib'] = None; from accord.__main__ import main; "
    done = subprocess.run([sys.executable, "-c", f"{code}sys.argv = {given}; main()"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "accord: the command 'lab' cannot be loaded: matplotlib is not installed; run pip install 'accord[lab]'.\n"
    )
