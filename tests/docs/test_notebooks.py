"""The notebooks run in a kernel, and say what they said when they were written down."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
import run_notebooks

from documents import assert_same

PAPER = "a_table_of_the_paper"
NOTEBOOKS = sorted(path.stem for path in run_notebooks.FOLDER.glob("*.ipynb"))


def shown(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """What each cell printed or gave back, by its id; a cell with the tag `varies` need only run."""
    return {
        cell.id: "\n".join(one.get("text") or one.data["text/plain"] for one in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code" and "varies" not in cell.metadata.get("tags", ())
    }


def test_there_are_three_and_all_were_run() -> None:
    assert NOTEBOOKS == [PAPER, "audit_a_log", "database_to_server"]
    for name in NOTEBOOKS:
        cells = nbformat.read(run_notebooks.FOLDER / f"{name}.ipynb", as_version=4).cells
        code = [cell for cell in cells if cell.cell_type == "code"]
        assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), "run docs/run_notebooks.py"
        assert not [one for cell in code for one in cell.outputs if one.get("name") == "stderr"]


@pytest.mark.parametrize("name", [name for name in NOTEBOOKS if name != PAPER])
def test_a_notebook_says_what_it_shows(name: str) -> None:
    path = run_notebooks.FOLDER / f"{name}.ipynb"
    before, now = shown(nbformat.read(path, as_version=4)), shown(run_notebooks.executed(path))
    assert before.keys() == now.keys()
    for cell, text in before.items():
        assert_same(text, now[cell])


@pytest.mark.heavy  # of the same code as without its data
def test_the_table_of_the_paper_with_its_data(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (shared_data / "ml-100k").is_dir():
        pytest.skip("MovieLens-100k in the paper's split is not here")
    monkeypatch.setenv("ACCORD_DATA", str(shared_data))
    test_a_notebook_says_what_it_shows(PAPER)


def one_epoch(code: str) -> str:
    return code.replace("seeds=[2019]", "seeds=[2019], epochs=1")


def test_the_table_of_the_paper_says_so_without_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCORD_DATA", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    path = run_notebooks.FOLDER / f"{PAPER}.ipynb"
    assert one_epoch(path.read_text(encoding="utf-8")) != path.read_text(encoding="utf-8")
    told = shown(run_notebooks.executed(path, one_epoch))
    assert "built-in data: ML-100k is not at hand" in "".join(told.values())
