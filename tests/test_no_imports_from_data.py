"""Every command that reads a file, with a name in it that would be imported: nothing is, unless the user allows it.

What an audit resumes from is in tests/cli/test_audit.py.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.folders import CHECKPOINT, honest

from accord.comparing.results import run_key
from commands import run
from paper_runs import simulated
from reproduction import FOLDER

HARM = "harm:Harm"
LOG = "modcloth"  # one of those that the pages of results show
CONSENSUS = {"model": "consensus", "model_options": {"members": [{"model": HARM}]}, "method": None}


@pytest.fixture
def harm(tmp_path, monkeypatch):
    """A working folder with a module that does harm when it is imported, and a log."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "harm", raising=False)
    monkeypatch.setattr("sys.path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    (tmp_path / "harm.py").write_text("import pathlib\npathlib.Path('harmed').mkdir()\n")
    shutil.copy(honest() / "log.csv", tmp_path / "log.csv")
    yield tmp_path
    assert not (tmp_path / "harmed").exists()
    assert "harm" not in sys.modules
    assert str(tmp_path) not in sys.path


def named_in_a_run(folder, change):
    shutil.copytree(honest() / "run", folder / "run")
    (folder / "run" / "manifest.json").unlink()
    said = {name: change[name] or "none" for name in ("model", "method") if name in change}
    for name, wanted in (("config.json", change), ("metrics.json", said)):
        file = folder / "run" / name
        file.write_text(json.dumps(json.loads(file.read_text()) | wanted))


RUN_COMMANDS = [
    "evaluate run",
    "recommend run --all --out all.parquet",
    "recommend run --user u1",
    "similar run i1",
    "score run --user u1 --item i1",
    "explain run --user u1",
    "report run",
    "update run log.csv --in-place",
    "serve run --port 0",
    "train log.csv --recipe run",
]


READERS = "evaluate run", "serve run --port 0", "train log.csv --recipe run"  # each reads a config in a way of its own
NAMED = {"model": {"model": HARM}, "method": {"method": HARM}, "member": CONSENSUS}


@pytest.mark.parametrize(
    ("command", "named"),
    [*((one, "member") for one in RUN_COMMANDS), *((one, named) for one in READERS for named in ("model", "method"))],
)
def test_no_command_imports_what_a_run_folder_names(command, named, harm, monkeypatch, capsys):
    named_in_a_run(harm, NAMED[named])
    code, _, err = run(monkeypatch, capsys, *command.split())
    assert code == 2
    assert f"names {HARM}, and loading it would import and run code; if you trust it, give --allow-imports" in err


def test_every_command_that_opens_a_run_is_tried():
    """They are those that have the option which allows it."""
    page = (FOLDER.parent / "cli.md").read_text()
    _, *parts = re.split(r"^#+ `accord (.+)`$", page, flags=re.MULTILINE)
    opening = {name for name, text in zip(parts[::2], parts[1::2], strict=True) if "--allow-imports" in text}
    tried = {command.split()[0] for command in RUN_COMMANDS}
    assert opening - tried == {"lab verify"}, "whose test follows"


def named_in_results(name, **more):
    """A line of results as they are written, of a model that a file names."""
    from accord.comparing.compare import Cell, Request, _identities, _plan
    from accord.data.load import load_named

    request = Request(load_named("demo"), seeds=1)
    (identity,) = _identities(request, _plan(request, Cell("gmf", "normal")))
    metrics = {"recall@20": 0.1, "ndcg@20": 0.1}
    line = identity | {"metrics": metrics, "epochs": 1, "seconds": 1.0, "device": "cpu", "groups": {}, **more}
    Path(f"{name}.jsonl").write_text(json.dumps(line) + "\n")


OPTION = {"method": "deca", "settings": {"method.h": HARM}}


@pytest.mark.parametrize("named", [{"model": HARM}, {"method": HARM}, OPTION], ids=["model", "method", "option"])
@pytest.mark.parametrize("name", ["overall", "results", "leaderboard"])
def test_verify_imports_nothing_that_results_name(name, named, harm, monkeypatch, capsys):
    named_in_results(name, **named)
    code, _, err = run(monkeypatch, capsys, "lab", "verify", harm)
    assert code == 2
    assert f"names {HARM}, and loading it would import and run code" in err


def test_no_comparison_imports_what_results_name(harm, monkeypatch, capsys):
    for name in ("results", "tuning"):
        named_in_results(name, model=HARM)
    code, _, err = run(monkeypatch, capsys, "compare", "demo", "--out", ".", "--render-only")
    assert code == 2, err
    assert "no finished runs" in err


@pytest.mark.parametrize("named", [{"model": HARM}, {"method": HARM}, OPTION], ids=["model", "method", "option"])
def test_the_papers_pages_import_nothing_that_results_name(named, harm, monkeypatch, capsys):
    Path("published").mkdir()
    named_in_results("published/overall", dataset="modcloth", **named)
    monkeypatch.setattr("accord.data.load.load_named", lambda _: simulated())
    words = "lab reproduce overall --dataset modcloth --seeds 1 --out . --render-only"
    code, _, err = run(monkeypatch, capsys, *words.split())
    assert code == 2, err
    assert "no finished runs on modcloth" in err


@pytest.mark.parametrize("name", ["leaderboard", "injected", "partners"])
def test_no_page_imports_what_results_name(name, harm, monkeypatch, capsys):
    """Of the results those on one log: all are shown in the same way."""
    summary = json.dumps({LOG: json.loads((FOLDER / "corrected" / f"{name}.json").read_text())[LOG]})
    lines = [json.loads(line) for line in (FOLDER / "corrected" / f"{name}.jsonl").read_text().splitlines()]
    lines = [line for line in lines if line["dataset"] == LOG]
    assert any(line["model"] == "gmf" for line in lines)
    for line in lines:
        if line["model"] == "gmf":
            key = run_key(line)
            line["model"] = HARM
            summary = summary.replace(key, run_key(line))
    Path(f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    Path(f"{name}.json").write_text(summary.replace('"gmf"', f'"{HARM}"'))
    code, _, err = run(monkeypatch, capsys, "lab", name, "--out", ".", "--render-only")
    assert code == 0, err


@pytest.mark.parametrize(("page", "differs"), [("bars/bars", False), ("labels/training", True)])
def test_verify_takes_the_models_that_lines_of_studies_name_for_text(page, differs, harm, monkeypatch, capsys):
    lines = (FOLDER / f"{page}.jsonl").read_text()
    assert '"model": "mf"' in lines
    name = Path(page).name
    Path(f"{name}.jsonl").write_text(lines.replace('"model": "mf"', f'"model": "{HARM}"'))
    shutil.copy(FOLDER / f"{page}.md", f"{name}.md")
    code, out, err = run(monkeypatch, capsys, "lab", "verify", ".")
    assert (code, f"{name}.md" in out + err) == (int(differs), True), "the page is made of the names"


def test_no_leaderboard_imports_what_finished_runs_that_it_takes_over_name(harm, monkeypatch, capsys):
    Path("before").mkdir()
    named_in_results("before/leaderboard", model=HARM)
    words = "lab leaderboard log.csv --models popularity --seeds 1 --from before --out out"
    code, _, err = run(monkeypatch, capsys, *words.split())
    assert code == 0, err


def test_no_name_in_a_checkpoint_or_a_store_is_imported(harm, monkeypatch, capsys):
    from safetensors import safe_open
    from safetensors.torch import save_file

    shutil.copytree(honest() / "cut", harm / "cut")
    with safe_open(harm / "cut" / CHECKPOINT, "pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        header = {key: value.replace('"model":"mf"', f'"model":"{HARM}"') for key, value in file.metadata().items()}
    assert any(HARM in value for value in header.values())
    save_file(tensors, harm / "cut" / CHECKPOINT, header)
    words = "train log.csv --model mf --method normal --seed 7 --epochs 1 --set model.dim=4 --out cut --resume"
    assert run(monkeypatch, capsys, *words.split())[0] == 2

    assert run(monkeypatch, capsys, *["data", "prepare", "log.csv", "--out", "store"])[0] == 0
    content = json.loads(Path("store/store.json").read_text())
    Path("store/store.json").write_text(json.dumps(content | {"name": HARM, "model": HARM}))
    run(monkeypatch, capsys, "data", "check", "store")


def test_the_working_folder_is_imported_from_only_for_a_class_that_was_named(tmp_path):
    for name in ("typer", "rich", "duckdb", "ray"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} of the working folder was imported')\n")
    words = [sys.executable, "-m", "accord"]
    done = subprocess.run([*words, "models"], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "mine.py").write_text("from accord.models.popularity import Popularity as Mine\n")
    words += ["train", "demo", "--model", "mine:Mine", "--out", "run", "--device", "cpu"]
    for name in ("typer", "rich"):
        (tmp_path / f"{name}.py").unlink()
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
