"""Write what the commands of the README print below them again: `python docs/record_readme.py`, then read the change.

`make demo` is run with its three seeds, the rest in one folder, in order, as tests/docs/test_readme.py does.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from documents import BLOCK, run  # noqa: E402


def main() -> None:
    page = ROOT / "README.md"
    text = page.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    recorded = []
    with TemporaryDirectory() as folder:
        for block, after in pairwise(blocks):
            code = "accord demo" if "make demo" in block[2] else block[2]
            if block[1] == "text" or code.startswith(("make", "pip")):
                continue
            printed = run(block[1], code, Path(folder), started=True)
            if after[1] == "text":
                recorded.append((after.start(2), after.end(2), printed + "\n"))
    for start, end, printed in reversed(recorded):
        text = text[:start] + printed + text[end:]
    page.write_text(text, encoding="utf-8")
    subprocess.run(["git", "diff", "--stat", str(page)], check=True)


if __name__ == "__main__":
    main()
