"""The docs: generated parts are current, examples run, links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

import accord
from documents import BLOCK, ROOT, assert_same, run
from helpers import script

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "records").glob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"^`(\w+\.py)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def generator() -> ModuleType:
    return script(ROOT / "docs" / "generate.py", "generate_docs")


def fewer_epochs(code: str) -> str:
    return re.sub(r"(epochs[= ])\d+", r"\g<1>1", code)


def test_generated_parts_are_current() -> None:
    generate = generator()
    seen = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        seen |= {match[1] for match in generate.PART.findall(text)}
        assert generate.filled(text) == text, f"{page.name}: run `python docs/generate.py`"
    assert seen == set(generate.PARTS)


@pytest.mark.parametrize(
    ("kind", "heading"),
    [
        ("model", "A model"),
        ("solved", "A solved model"),
        ("method", "A method"),
        ("staged", "A method in stages"),
    ],
)
def test_extending(kind: str, heading: str, tmp_path: Path) -> None:
    """Each example as it stands, with fewer epochs: the files in Python, then the commands."""
    page = read("extending.md")
    start = page.index(f"## {heading}\n")
    section = page[start : page.index("\n## ", start + 1)]
    files = dict(NAMED.findall(section))
    assert set(files) == {f"my_{kind}.py", f"use_{kind}.py"}
    assert sum(code.count("\n") for code in files.values()) < 55
    for name, code in files.items():
        (tmp_path / name).write_text(fewer_epochs(code))
    shown = next(content for language, content in BLOCK.findall(section) if language == "text")
    assert_same(shown, run("bash", f"python use_{kind}.py", tmp_path))

    commands = next(content for language, content in BLOCK.findall(section) if language == "bash")
    printed = run("bash", fewer_epochs(commands), tmp_path)
    assert f"my_{kind}:" in printed
    if kind != "model":  # one that is refused is enough
        return
    refused = commands.splitlines()[1].replace(" --allow-imports", "")
    with pytest.raises(AssertionError, match="--allow-imports"):
        run("bash", refused, tmp_path)


def test_every_name_that_extending_lists_exists() -> None:
    """What a model, a method or its training may have, by the tables, and what a context offers, by the text."""
    from accord.methods.base import TrainingContext

    page = read("extending.md")
    for heading, kind in (("A solved model", accord.Model), ("A method", accord.Method)):
        section = page[page.index(f"## {heading}\n") :].split("\n## ")[0]
        cells = re.findall(r"^\| (`.+?) \|", section, re.MULTILINE)
        names = [name for cell in cells for name in re.findall(r"`(\w+)", cell)]
        assert len(names) >= 8
        assert [name for name in names if not hasattr(kind, name)] == []
    offered = re.findall(r"\bcontext\.(\w+)", page)
    assert {"train", "solve", "set_column"} <= set(offered)
    assert [name for name in offered if not hasattr(TrainingContext, name)] == []


def test_a_model_of_ones_own_votes(tmp_path: Path) -> None:
    """The commands of "In a consensus", with the solved model of the section before."""
    page = read("extending.md")
    (tmp_path / "my_solved.py").write_text(dict(NAMED.findall(page))["my_solved.py"])
    start = page.index("### In a consensus\n")
    commands = next(content for language, content in BLOCK.findall(page[start:]) if language == "bash")
    printed = run("bash", commands, tmp_path)
    assert re.search(
        r"^user +rank +item +score +source +agree +of +ease +my_solved:TakenTogether$", printed, re.MULTILINE
    )
    with pytest.raises(AssertionError, match="--allow-imports"):
        run("bash", commands.splitlines()[1].replace(" --allow-imports", ""), tmp_path)


@pytest.mark.parametrize("name", ["asking.md", "protocol.md", "data.md", "labels.md"])
def test_other_examples(name: str, tmp_path: Path) -> None:
    found = BLOCK.findall(read(name))
    for (language, code), (after, output) in zip(found, [*found[1:], ("", "")], strict=True):
        if language == "python" or (language == "bash" and "demo" in code):
            printed = run(language, fewer_epochs(code), tmp_path)
            if after == "text":
                assert_same(output, printed)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings], link


@pytest.mark.parametrize(
    ("name", "most"), [("performance.md", 700), ("reliability.md", 700), ("scaling.md", 1_500), ("labels.md", 1_000)]
)
def test_a_page_with_a_record_stays_short(name: str, most: int) -> None:
    assert len(read(name).split()) <= most
    assert f"](records/{name}" in read(name)


def test_pages_for_users_stay_short() -> None:
    pages = ["README", "data", "auto", "labels", "audit", "asking", "serve", "report", "extending"]
    texts = [(ROOT / "README.md").read_text(encoding="utf-8"), *(read(f"{name}.md") for name in pages)]
    assert sum(len(text.split()) for text in texts) <= 11_000


def test_the_readme_has_few_links() -> None:
    links = re.findall(r"(?<!!)\[[^\]]*\]\(", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert 0 < len(links) <= 8


def test_picture_is_small() -> None:
    picture = ROOT / "docs" / "images" / "report.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 200_000


def test_named_figures(shared_data: Path, tmp_path: Path) -> None:
    """The rows of docs/method.md that accord itself makes, to three decimals."""
    from accord.data.load import load
    from accord.fitting import fit

    row = re.compile(r"^\| `([\w-]+)`, `(popularity|ease)`(?:, `l2=(\d+)`)? \|(.*)\|$", re.MULTILINE)
    found = row.findall(read("method.md"))
    assert len(found) == 5
    for name, model, l2, cells in found:
        if not (shared_data / name).is_dir():
            continue
        data = load(shared_data / name)
        trained = fit(data, model, ks=[5, 20], options={"model.l2": float(l2)} if l2 else {})
        mean = trained.metrics["mean"]
        values = [mean[metric] for metric in ("recall@5", "recall@20", "ndcg@5", "ndcg@20")]
        assert values == pytest.approx([float(cell) for cell in cells.split("|")], abs=0.0005), (name, model)
