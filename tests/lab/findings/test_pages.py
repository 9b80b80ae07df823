"""Pages whose sentences are generated are as the raw results say."""

from __future__ import annotations

import re

import pytest

from accord.errors import InputError
from accord_lab.findings.pages import PAGES, PART, filled, is_there
from reproduction import FOLDER


@pytest.mark.parametrize("page", PAGES)
def test_sentences_are_those_of_the_raw_results(page):
    assert filled(FOLDER, page) == (FOLDER / page).read_text(encoding="utf-8"), "run `python docs/generate.py`"


def test_a_page_needs_a_place_for_every_part(tmp_path):
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    (tmp_path / "README.md").write_text(text.replace("<!-- generated: grid -->", ""), encoding="utf-8")
    with pytest.raises(InputError, match="no place for grid"):
        filled(tmp_path, "README.md")


def test_figures_outside_of_the_generated_parts_are_not_results():
    """What is written by hand has no decimals: a figure of a result belongs into a generated part."""
    for page in PAGES:
        by_hand = PART.sub("", (FOLDER / page).read_text(encoding="utf-8"))
        assert not re.findall(r"(?<![\w/-])0?\.\d{2,}", by_hand), page


def test_a_page_of_the_same_name_is_another():
    assert is_there(FOLDER, "README.md")
    assert is_there(FOLDER, "corrected/README.md")
    assert not is_there(FOLDER / "corrected", "README.md")
    assert not is_there(FOLDER / "corrected", "corrected/README.md")
