"""Run the notebooks in a kernel and keep what comes out: `python docs/run_notebooks.py [NAME ...]`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent / "notebooks"


def executed(path: Path, change: Callable[[str], str] = str) -> nbformat.NotebookNode:
    """A notebook with the outputs of now, its cells changed first. An error in a cell is an error here."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = change(cell.source)
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore:IProgress not found"}  # tqdm's, of no bearing
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", record_timing=False, resources={"metadata": {"path": path.parent}}
    ).execute()
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return notebook


def main(names: list[str]) -> None:
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.stem in names:
            nbformat.write(executed(path), path)


if __name__ == "__main__":
    main(sys.argv[1:])
