"""docs/reproduction keeps raw results, pages and pictures; the other forms of a table are written by command."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from statistics import fmean

import pytest
from typer.testing import CliRunner

from accord.cli.app import app
from accord.comparing.results import run_key
from documents import BLOCK

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reproduction"
KEPT = {".jsonl", ".json", ".md", ".svg"}
WRITTEN = (".html", ".tex", ".csv")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]+)")


def commands() -> list[str]:
    blocks = BLOCK.findall((FOLDER / "README.md").read_text(encoding="utf-8"))
    return [line for language, code in blocks if language == "sh" for line in code.splitlines()]


def test_only_what_is_kept_is_committed() -> None:
    listed = subprocess.run(["git", "ls-files", "-z", FOLDER], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    names = listed.stdout.split("\0")[:-1]
    assert len(names) > 40
    users = "docs/reproduction/corrected/leaderboard.per_user.parquet"  # by which the tests can be done again
    assert {Path(name).suffix for name in names if name != users} <= KEPT
    asked = [f"docs/reproduction/published/overall{suffix}" for suffix in WRITTEN]
    ignored = subprocess.run(["git", "check-ignore", *asked], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ignored.stdout.split() == asked


@pytest.mark.parametrize("page", sorted(FOLDER.rglob("*.md")), ids=lambda page: page.relative_to(FOLDER).as_posix())
def test_links_lead_to_what_is_kept(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in link:
            assert (page.parent / link).suffix not in WRITTEN, link
            assert (page.parent / link).exists(), link


def test_a_command_is_named_for_every_folder() -> None:
    folders = {path.parent for path in FOLDER.rglob("*.jsonl")}
    named = {ROOT / shlex.split(line)[shlex.split(line).index("--out") + 1] for line in commands()}
    assert {folder if folder.name == "corrected" else folder.parent for folder in folders} == named
    assert all(line.endswith(" --render-only") for line in commands())


@pytest.mark.parametrize(
    ("page", "asked"),
    [
        ("corrected/injected", "accord lab injected "),
        ("corrected/partners", "accord lab partners "),
        ("softmax/softmax", "accord lab injected --of softmax --out docs/reproduction/softmax --render-only"),
    ],
)
def test_a_command_writes_all_forms(page: str, asked: str, tmp_path: Path) -> None:
    """The quickest ones, which need no dataset, on a copy: the page is the one that is kept, other forms beside it."""
    folder, _, name = page.partition("/")
    for path in (FOLDER / folder).glob(f"{name}.json*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    line = next((line for line in commands() if line.startswith(asked)), asked)
    words = [str(tmp_path) if word.startswith("docs/") else word for word in shlex.split(line)[1:]]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    for suffix in WRITTEN:
        assert (tmp_path / f"{name}{suffix}").stat().st_size > 1000
    kept = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    assert (tmp_path / f"{name}.md").read_text(encoding="utf-8") == kept, f"run `{line}`"


def test_what_is_said_of_agreement_on_softmax_is_what_came_out() -> None:
    place = FOLDER / "softmax"
    lines = {run_key(line): line for line in map(json.loads, (place / "softmax.jsonl").open("rb"))}
    entries = json.loads((place / "softmax.json").read_text(encoding="utf-8"))
    changes: dict[bool, list[tuple[float, float]]] = {True: [], False: []}  # on logs as they are, and with noise
    aucs, pointwise = [], []
    for entry in entries.values():
        runs = {row: [lines[key] for key in keys] for row, keys in entry["rows"].items()}
        means = {row: fmean(run["metrics"]["ndcg@20"] for run in runs[row]) for row in runs}
        pointwise.append(means["cross-entropy (Normal)"] / means["softmax"] - 1)
        for row in (row for row in means if "on softmax" in row or row.startswith("…")):
            changes[entry["clean"] is None].append((means[row] / means["softmax"] - 1, entry["tests"][row]["p_holm"]))
            if "noise" in runs[row][0]:
                aucs.append(fmean(run["noise"]["auc"] for run in runs[row]))
                aucs[-1] -= fmean(run["noise"]["auc"] for run in runs["softmax"])
    said = " ".join((ROOT / "docs" / "method.md").read_text(encoding="utf-8").split())
    for cells in changes.values():
        sizes = [change for change, _ in cells]
        better, worse = (sum(p < 0.05 and side * change > 0 for change, p in cells) for side in (1, -1))
        figures = f"{min(sizes):+.1%} to {max(sizes):+.1%}, {fmean(sizes):+.1%} on average"
        assert f"({figures}; of {len(cells)} cells {better} significantly better, {worse} worse)" in said
    assert f"(AUC {min(aucs):+.3f} to {max(aucs):+.3f}, {fmean(aucs):+.3f} on average)" in said
    assert sum(change > 0 for change in pointwise) == 1
    assert f"below softmax in {len(pointwise) - 1} of {len(pointwise)} tables, by up to {-min(pointwise):.0%}" in said
    page = (place / "softmax.md").read_text(encoding="utf-8").partition("## KuaiRand, built-in noise")[2]
    rows = [line for line in page.partition("\n## ")[0].splitlines() if line.endswith("% |")]
    costs = [float(row.split("|")[-2].strip(" %")) / 100 for row in rows]
    assert f"every row is {min(costs):.0%} to {max(costs):.0%} better" in said
