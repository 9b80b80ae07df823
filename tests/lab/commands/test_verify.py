"""`accord lab verify` as a user runs it."""

from __future__ import annotations

import shutil

from typer.testing import CliRunner

from accord.cli.app import app
from reproduction import FOLDER


def verify(*words):
    return CliRunner().invoke(app, ["lab", "verify", *map(str, words)])


def test_a_page_that_was_changed_by_hand(tmp_path):
    for path in (FOLDER / "corrected").glob("partners.*"):
        shutil.copy(path, tmp_path)
    page = tmp_path / "partners.md"
    page.write_text(page.read_text(encoding="utf-8").replace("0.1337", "0.1338"), encoding="utf-8")
    done = verify(tmp_path, "--no-training")
    assert done.exit_code == 1
    assert "DIFFERS: partners.md (line" in done.output
    assert "0 as they say, 1 differ, 0 not checked" in done.output


def test_no_such_folder():
    done = verify("nowhere")
    assert done.exit_code
    assert "there is no such folder" in str(done.exception)
