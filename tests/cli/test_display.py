"""What the command line shows."""

from __future__ import annotations

import re
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.progress import Task, TaskID

from accord.cli import display
from accord.cli.display import metrics_table, print_table, say, table_as_text, training_progress, write_table
from accord.training.trainer import OF_BUDGET, Progress

TABLE = pa.table({"user": ["a", "[bold]b"], "score": [0.5, None]})


def test_a_table_is_aligned_and_shows_markup_as_it_is(capsys):
    print_table(["name", "value"], [["[red]x", 0.123456], ["y", None]], "A [title]")
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["A [title]", "name    value", "[red]x  0.1235", "y"]


def test_notes_go_to_standard_error_without_control_characters(capsys):
    say("a\x1b[31mb")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "\x1b" not in printed.err
    assert printed.err.endswith("\n")


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("table", "user     score\na        0.5000\n[bold]b"),
        ("json", '{"user": "a", "score": 0.5}\n{"user": "[bold]b", "score": null}'),
        ("csv", '"user","score"\n"a",0.5\n"[bold]b",'),
    ],
)
def test_a_table_as_text(tmp_path, form, text):
    assert table_as_text(TABLE, form) == text
    write_table(TABLE, tmp_path / "x", form)
    assert (tmp_path / "x").read_text() == text + "\n"


def test_a_table_as_parquet(tmp_path):
    write_table(TABLE, tmp_path / "x.parquet", "parquet")
    assert pq.read_table(tmp_path / "x.parquet").equals(TABLE)
    assert [path.name for path in tmp_path.iterdir()] == ["x.parquet"]


def test_metrics_of_several_runs_have_a_deviation(capsys):
    groups = {"warm": {"users": 3, "mean": {"recall@20": 0.25}}, "cold": {"users": 0, "mean": {}}}
    dataset = dict.fromkeys(("users", "items", "train", "valid", "test"), 1000) | {"name": "clicks"}
    metrics = {"dataset": dataset, "runs": [{}, {}], "groups": groups, "model": "gmf", "method": "deca"}
    metrics |= {"protocol": {"name": "corrected"}, "mean": {"recall@20": 0.2}, "std": {"recall@20": 0.01}}
    metrics_table(metrics)
    printed = capsys.readouterr()
    assert "clicks: 1,000 users" in printed.err
    assert "test · gmf + deca · corrected · 2 run(s)" in printed.err
    assert printed.out.startswith("metric ")
    assert "0.2000 ± 0.0100" in printed.out
    assert "warm (3)" in printed.out
    assert "cold" not in printed.out
    metrics_table(metrics | {"model": "ease", "method": "none"})
    assert "test · ease · corrected" in capsys.readouterr().err


def test_progress_is_silent_where_nobody_looks(capsys):
    with training_progress() as watch:
        watch(Progress("1/1", 1, 2, 3, 0.5, 6.0, 0.1))
        watch(Progress("1/1", 2, 2, 3, 0.4, 6.0, None))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.strip() == ""


def test_a_search_says_once_what_it_tries_on_a_terminal_too(capsys, monkeypatch):
    progress = Progress("ease 1/2", 0, 2, 0, float("nan"), 0.0, None, OF_BUDGET, "auto tries ease")
    for colour in ("", "1"):  # as on a terminal
        monkeypatch.setenv("FORCE_COLOR", colour)
        with training_progress() as watch:
            watch(progress)
            watch(replace(progress, stage="ease 2/2", plan=None))
        assert capsys.readouterr().err.count("auto tries ease") == 1


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when the test says so."""
    now = [0.0]
    monkeypatch.setattr(display, "monotonic", lambda: now[0])
    return now


def test_a_log_file_gets_a_line_now_and_then_with_the_time_left(capsys, clock):
    with training_progress() as watch:
        for seconds, done in ((0, 0), (20, 1), (40, 2), (80, 3), (81, 4)):
            clock[0] = seconds
            watch(Progress(f"ease {done}, best so far 0.4831", 25 * done, 100, unit=OF_BUDGET))
            watch(Progress("1/1", 1, 9))
        clock[0] = 120
        watch(Progress("1/1", 4, 9, 100, 0.5, 80.0))
        clock[0] = 160
        watch(Progress("learning from the labels", 0, 100, unit=""))
    below = "training 1/1: 4/9 epochs · loss 0.5000 · 80 steps/s, 0:01:05 left"
    assert capsys.readouterr().err.splitlines() == [
        "ease 2, best so far 0.4831: 50% of the budget, 0:00:40 left",
        "ease 3, best so far 0.4831: 75% of the budget, 0:00:27 left",
        f"ease 4, best so far 0.4831: 100% of the budget; {below}",
        "learning from the labels",
    ]


def test_a_search_of_many_settings_stays_within_a_small_terminal(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    with training_progress() as watch:
        for number in range(30):
            watch(Progress(f"gmf {number}, best so far 0.4831", number, 30, unit=OF_BUDGET))
            watch(Progress(f"1/{number}", 1, 9, 100, 0.5, 80.0))
        for number in range(30):  # of many processes
            watch(Progress(f"job {number}", 1, 9))
    drawn = capsys.readouterr().err
    assert "gmf 29" in drawn
    frames = re.findall(r"(?:\x1b\[1A\x1b\[2K)+", drawn)  # the rows of a frame that are removed at its end
    assert max(frame.count("\x1b[1A") for frame in frames) <= display.MOST_ROWS + 1


def test_the_time_left_shrinks_while_nothing_is_reported(clock):
    task = Task(TaskID(0), "rows", 10, 1, lambda: 0.0, fields={"ends": 300.0})
    shown = []
    for clock[0] in (30, 60, 400):
        shown.append(str(display.TimeLeft().render(task)))
    assert shown == ["0:04:30 left", "0:04:00 left", "0:00:00 left"]


def shown(capsys, ks, *given):
    names = [f"{metric}@{k}" for metric in ("recall", "ndcg", "mrr") for k in ks]
    metrics = {"dataset": dict.fromkeys(("users", "items", "train", "valid", "test"), 9) | {"name": "clicks"}}
    metrics |= {"runs": [{}], "groups": {}, "model": "ease", "method": "none", "protocol": {"name": "corrected"}}
    metrics_table({**metrics, "mean": dict.fromkeys(names, 0.5), "std": {}}, *given)
    return [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]


def test_unasked_metrics_are_recall_and_ndcg_at_ten_and_twenty(capsys):
    usual = (3, 5, 10, 20)
    assert shown(capsys, usual) == ["recall@10", "recall@20", "ndcg@10", "ndcg@20"]
    assert len(shown(capsys, usual, True)) == 12
    assert shown(capsys, usual, False, [3, 5]) == ["recall@3", "recall@5", "ndcg@3", "ndcg@5"]
    assert shown(capsys, (5, 7)) == ["recall@5", "recall@7", "ndcg@5", "ndcg@7"]  # lengths that somebody chose
