"""Write beside each command of docs/walk.md the CPU seconds that it takes: `python docs/record_walk.py`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from documents import BLOCK, run  # noqa: E402

PAGE = ROOT / "docs" / "walk.md"
TIMED = re.compile(r"^((?:accord|curl) .*?)(?: # [\d.]+ s)?$", re.MULTILINE)  # a command that ends by itself
STOPPED = "trap 'kill $! 2> /dev/null || true' EXIT\n"  # the server, whatever fails


def commands(text: str) -> str:
    """All commands of the page, to be run one after the other."""
    return STOPPED + "\n".join(code for language, code in BLOCK.findall(text) if language == "bash")


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    with TemporaryDirectory() as name:
        folder = Path(name)
        run("python", next(code for language, code in BLOCK.findall(text) if language == "python"), folder)

        def timed(match: re.Match[str]) -> str:
            return match[0] if match[1].endswith("&") else f"{{ time {match[1]} 2>&3; }} 3>&2 2>> times.txt"

        run("bash", "TIMEFORMAT='%U %S'\n" + TIMED.sub(timed, commands(text)), folder, started=True)
        seconds = iter(sum(map(float, line.split())) for line in (folder / "times.txt").read_text().splitlines())
    PAGE.write_text(
        TIMED.sub(lambda m: m[0] if m[1].endswith("&") else f"{m[1]} # {next(seconds):.1f} s", text), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
