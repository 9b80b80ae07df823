"""docs/errors.md: every sentence says what to do. That the page is current, test_docs.py checks."""

from __future__ import annotations

import re

import odd_inputs
import pytest

from documents import ROOT

ROW = re.compile(r"^\| (?!what is wrong|---)(.+?) \| `(.+)` \| (.+) \|$", re.MULTILINE)
TO_DO = re.compile(
    r"\b(add|change|check|copy|correct|did you mean|fill|give|leave|make|must be|name|options are written|pip install"
    r"|put|remove|rename|run|save|say|see|separate|set|should be|train|use|write)\b"
)


def rows() -> list[tuple[str, str, str]]:
    """What is wrong, what was asked and what is said, of every row of the page."""
    return ROW.findall((ROOT / "docs" / "errors.md").read_text(encoding="utf-8"))


def test_the_page_has_every_input_and_no_sentence_names_this_machine() -> None:
    found = rows()
    assert len(found) == sum(map(len, odd_inputs.GROUPS.values())) >= 60
    for _, asked, said in found:
        assert "Traceback" not in said, asked
        assert "/tmp" not in said, asked
        assert "Error:" not in said, asked
        assert said[-1] in ".?", asked


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row[0]}: {row[1]}")
def test_a_sentence_says_what_to_do(row: tuple[str, str, str]) -> None:
    _, asked, said = row
    if asked not in {odd.asked for odd in odd_inputs.READ}:  # those are notes: nothing need be done
        assert TO_DO.search(said), said
    if not asked.startswith("accord "):
        assert not re.search(r"(?<!accord )--\w", said), f"no option of the command line helps in Python: {said}"


def test_what_is_no_error_is_noticed() -> None:
    with odd_inputs.folder() as honest:
        with pytest.raises(AssertionError, match="exit code 0"):
            odd_inputs.sentence(odd_inputs.Odd("nothing is wrong", "accord data check clicks.csv"), honest)
        with pytest.raises(AssertionError, match="no error"):
            odd_inputs.sentence(odd_inputs.Odd("nothing is wrong", "rec.recommend(['u1'])"), honest)
        with pytest.raises(TypeError):
            odd_inputs.sentence(odd_inputs.Odd("a traceback", "len(3)"), honest)
