"""`accord lab reproduce` as a user runs it: on a folder in the form of Electronics, killed and started again."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from accord.cli.app import main
from started import Started

SMALL = "--dataset electronics --epochs 1 --device cpu"


@pytest.fixture
def electronics(tmp_path, monkeypatch):
    """A folder like that of Electronics: training, validation, the noisy test and the clean one, with ratings."""
    folder = tmp_path / "data" / "electronics"
    folder.mkdir(parents=True)
    draw = np.random.default_rng(5)
    pairs = draw.permutation(200 * 60)[:1600]
    rows = np.stack([pairs // 60, pairs % 60, draw.integers(1, 6, len(pairs))], 1)
    parts = {"train.rating": rows[:1200], "valid.rating": rows[1200:1400], "test.noisy": rows[1400:]}
    parts["test.negative"] = parts["test.noisy"][parts["test.noisy"][:, 2] == 5]
    for part, own in parts.items():
        text = "".join(f"{user}\t{item}\t{rating}\n" for user, item, rating in own)
        (folder / f"electronics.{part}").write_text(text)
    monkeypatch.setenv("ACCORD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("ACCORD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(monkeypatch, words):
    monkeypatch.setattr(sys, "argv", ["accord", "lab", "reproduce", *words.split()])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0


def lines(folder, name):
    """The raw results, without what differs from run to run."""
    found = [json.loads(line) for line in (folder / "published" / f"{name}.jsonl").read_text().splitlines()]
    for line in found:
        del line["seconds"]
    return found


def test_electronics_from_its_files_to_its_page(electronics, monkeypatch, capsys):
    run(monkeypatch, f"overall {SMALL} --model gmf,cdae --method normal,deca --seeds 1 --out here")
    page = (electronics / "here/published/overall.md").read_text()
    assert "Overall comparison: electronics" in page
    assert "recall@50 paper" in page
    assert "ml-100k (not run yet)" in page
    assert [(line["dataset"], line["model"], line["method"]) for line in lines(electronics / "here", "overall")] == [
        ("electronics", *cell)
        for cell in (
            *(("gmf", "normal"), ("gmf", "deca"), ("cdae", "normal"), ("cdae", "deca")),
            *(("popularity", "none"), ("ease", "none")),
        )
    ]
    assert "recall@50 ours" in capsys.readouterr().out


def test_all_of_it_in_one_command(electronics, monkeypatch):
    run(monkeypatch, f"all {SMALL} --model gmf --seeds 1 --out here")
    folder = electronics / "here/published"
    for name in ("overall", "ablation", "selection", "curves", "agreement", "posterior", "grid"):
        assert {f"{name}.{end}" for end in ("jsonl", "md", "html", "csv", "tex")} <= {p.name for p in folder.iterdir()}
    for name in ("curves", "agreement", "posterior", "grid"):
        assert (folder / f"{name}-electronics.svg").exists() == (name != "agreement")  # one seed of one model: no pair
    assert "recall@50 along training" in (folder / "curves.md").read_text()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    run(monkeypatch, "all --model gmf --seeds 1 --epochs 1 --render-only --out here")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def killed(words, at):
    """Start the command, and kill it when it says that it begins this stack."""
    with Started("accord", "lab", "reproduce", *words.split(), stdout=subprocess.DEVNULL) as job:
        assert job.stderr is not None
        said = next(line for line in job.stderr if line.startswith(f"{at} of "))
        job.kill()
    assert job.returncode == -9
    return said


def test_killed_and_started_again_it_ends_with_the_same_results(electronics, monkeypatch):
    words = f"overall {SMALL} --model gmf --method normal,deca,deca-p --seeds 2"
    run(monkeypatch, f"{words} --out whole")
    assert killed(f"{words} --out cut", 1).startswith("1 of 5")  # three methods, popularity and EASE
    assert killed(f"{words} --out cut", 3).startswith("3 of 5")
    assert killed(f"{words} --out cut", 2).startswith("2 of 3")  # the first two are not repeated
    run(monkeypatch, f"{words} --out cut")
    assert lines(electronics / "cut", "overall") == lines(electronics / "whole", "overall")
    names = sorted(path.name for path in (electronics / "whole/published").iterdir())
    assert names == sorted(path.name for path in (electronics / "cut/published").iterdir())
    for name in names:
        if not name.endswith(".jsonl"):
            cut, whole = (electronics / out / "published" / name for out in ("cut", "whole"))
            assert cut.read_bytes() == whole.read_bytes()


def test_the_corrected_overall_comparison_is_the_leaderboard(tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(
        "accord_lab.leaderboards.leaderboard.run", lambda *given, **named: asked.append((given, named)) or []
    )
    command = [
        "lab",
        "reproduce",
        "overall",
        "--protocol",
        "corrected",
        "--dataset",
        "demo",
        "--model",
        "mf",
        "--method",
        "tce",
    ]
    monkeypatch.setattr("sys.argv", ["accord", *command, "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    ((datasets, request, folder), named) = asked[0]
    assert [data.name for data in datasets] == ["demo"]
    assert folder == tmp_path / "corrected"
    assert named == {"trials": 16, "models": ["mf"], "methods": ["tce"]}
    assert (request(datasets[0]).seeds, request(datasets[0]).protocol) == (10, "corrected")
    monkeypatch.setattr("sys.argv", ["accord", *command, "--seeds", "0"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "--seeds must be at least 1" in capsys.readouterr().err


def test_mistakes_end_in_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCORD_DATA", str(tmp_path))
    monkeypatch.setenv("ACCORD_CACHE", str(tmp_path / "cache"))
    for words, expected in (
        ("overal", "did you mean 'overall'"),
        ("overall --dataset modcloht", "did you mean 'modcloth'"),
        ("overall", "none of ml-100k"),
        ("overall --protocol publish", "did you mean 'published'"),
        ("curves --method tce", "unknown method"),
        ("posterior --dataset adressa", "dwell times"),
        ("all --model gmff", "did you mean 'gmf'"),
        ("overall --render-only", "no results to render"),
    ):
        monkeypatch.setattr(sys, "argv", ["accord", "lab", "reproduce", *words.split()])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 2
        assert expected in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
