"""Comparisons: what is run, stacked, kept, continued and shown."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import accord
from accord.cli.app import main
from accord.errors import InputError
from accord.experiments import compare as comparing
from accord.experiments import memory
from accord.experiments.compare import Cell, Request, cells_of, compare
from accord.experiments.compare_tables import render
from accord.experiments.executor import Here
from accord.experiments.results import Results, run_key
from accord.experiments.tuning import SPACE, trials_of, tuned


@pytest.fixture(scope="module")
def data():
    return accord.simulate(users=120, items=60, interactions=1500, seed=3).dataset


def quiet(*_words):
    pass


def sizes_of_stacks(monkeypatch, most=1000, message="can't allocate memory: you tried to allocate too much"):
    """The sizes of the stacks that are trained; from `most` runs on, memory runs out."""
    sizes, train = [], memory.train_stack

    def limited(data, run, *rest, **options):
        sizes.append(len(run.config.seeds))
        if len(run.config.seeds) >= most:
            raise RuntimeError(message)
        return train(data, run, *rest, **options)

    monkeypatch.setattr(memory, "train_stack", limited)
    return sizes


def test_cells_leave_out_options_that_a_method_has_not():
    cells = cells_of(["gmf"], ["normal", "deca"], {"method.c1": [1.0, 10.0], "train.l2": [0.0, 0.1]})
    names = [cell.name for cell in cells]
    assert names == [
        "gmf + normal l2=0.0",
        "gmf + normal l2=0.1",
        *(f"gmf + deca c1={c1} l2={l2}" for c1 in (1.0, 10.0) for l2 in (0.0, 0.1)),
        "popularity",
        "ease",
    ]
    with pytest.raises(accord.InputError, match="none of the models"):
        cells_of(["gmf"], ["normal"], {"method.c1": [1.0, 2.0]})


def test_a_grid_is_one_stack_and_each_run_is_as_if_alone(data, tmp_path, monkeypatch):
    sizes = sizes_of_stacks(monkeypatch)
    cells = cells_of(["mf"], ["deca"], {"method.c1": [1.0, 50.0], "train.l2": [0.0, 0.1]})
    request = Request(data, seeds=2, epochs=2, say=quiet)
    results = compare(request, cells, Results(tmp_path))
    assert sizes == [8, 1, 1]
    lines = results.read()
    assert len(lines) == 10
    assert set(lines[0]) >= {"dataset", "model", "method", "seed", "settings", "metrics", "seconds", "device"}
    for line in (lines[0], lines[5], lines[7]):
        options = {key: line["settings"][key] for key in ("method.c1", "train.l2")}
        alone = accord.fit(data, "mf", "deca", seeds=[line["seed"]], options=options, epochs=2)
        assert line["metrics"] == pytest.approx(alone.metrics["runs"][0]["metrics"], abs=0.02)
    assert len({json.dumps(line["settings"]) + str(line["seed"]) for line in lines if line["model"] == "mf"}) == 8


def test_continues_without_repeating_and_ends_with_the_same_results(data, tmp_path, monkeypatch):
    cells = cells_of(["mf", "gmf"], ["normal", "deca"], {})
    request = Request(data, seeds=2, epochs=1, say=quiet)
    whole = compare(request, cells, Results(tmp_path / "whole")).read()

    ran = []
    run = comparing._add

    def two_then_stop(request, stack, *rest):
        if len(ran) == 2:
            raise KeyboardInterrupt
        ran.append(stack)
        run(request, stack, *rest)

    monkeypatch.setattr(comparing, "_add", two_then_stop)
    with pytest.raises(KeyboardInterrupt):
        compare(request, cells, Results(tmp_path / "cut"))
    monkeypatch.setattr(comparing, "_add", run)
    with (tmp_path / "cut/results.jsonl").open("a") as file:
        file.write('{"dataset": "half a li')  # what a kill in mid-write leaves
    cut = compare(request, cells, Results(tmp_path / "cut")).read()
    assert [run_key(line) for line in cut] == [run_key(line) for line in whole]
    assert [line["metrics"] for line in cut] == [line["metrics"] for line in whole]
    again = compare(request, cells, Results(tmp_path / "cut")).read()
    assert again == cut


def test_other_data_under_the_same_name_is_run_anew(data, tmp_path):
    other = accord.simulate(users=120, items=60, interactions=1500, seed=4).dataset
    cells = cells_of(["mf"], ["normal"], {})
    for number, one in enumerate((data, other, data), 1):
        compare(Request(one, seeds=1, epochs=1, say=quiet), cells, Results(tmp_path))
        assert len(Results(tmp_path).read()) == 3 * min(number, 2)


def test_a_cell_with_defaults_keeps_them_beside_one_without(data, tmp_path):
    cells = [Cell("mf", "deca", (("method.c1", 500.0),)), Cell("mf", "deca")]
    lines = compare(Request(data, seeds=1, epochs=1, say=quiet), cells, Results(tmp_path)).read()
    assert [line["settings"]["method.c1"] for line in lines] == [500.0, 10.0]
    alone = accord.fit(data, "mf", "deca", epochs=1)
    assert lines[1]["metrics"] == pytest.approx(alone.metrics["runs"][0]["metrics"], abs=1e-6)


def test_stacks_are_split_where_memory_asks_for_it(data, tmp_path, monkeypatch):
    cells = cells_of(["mf"], ["normal"], {"train.l2": [0.0, 0.1]})
    request = Request(data, seeds=3, epochs=1, say=quiet)
    whole = compare(request, cells, Results(tmp_path / "whole")).read()
    monkeypatch.setattr(memory, "bytes_of_a_run", lambda *_: Here().room(torch.device("cpu")) // 2)
    sizes = sizes_of_stacks(monkeypatch)
    split = compare(request, cells, Results(tmp_path / "split")).read()
    assert max(sizes) == 2
    assert [run_key(line) for line in split] == [run_key(line) for line in whole]


def test_a_stack_that_runs_out_of_memory_goes_on_in_halves(data, tmp_path, monkeypatch):
    cells = [Cell("mf", "normal")]
    request = Request(data, seeds=5, epochs=1, say=quiet)
    whole = compare(request, cells, Results(tmp_path / "whole")).read()
    sizes = sizes_of_stacks(monkeypatch, most=3)
    said = []
    split = compare(replace(request, say=said.append), cells, Results(tmp_path / "split")).read()
    assert sizes == [5, 3, 2, 1, 2]
    assert any("out of memory with 5 runs" in line for line in said)
    assert [run_key(line) for line in split] == [run_key(line) for line in whole]
    for one, other in zip(split, whole, strict=True):
        assert one["metrics"] == pytest.approx(other["metrics"], abs=1e-6)


def test_one_run_that_does_not_fit_is_said_and_other_errors_stay_themselves(data, tmp_path, monkeypatch):
    request = Request(data, seeds=2, epochs=1, say=quiet)
    with monkeypatch.context() as patch:
        sizes_of_stacks(patch, most=1)
        with pytest.raises(InputError, match="even one run"):
            compare(request, [Cell("mf", "normal")], Results(tmp_path))
    sizes_of_stacks(monkeypatch, most=1, message="something else")
    with pytest.raises(RuntimeError, match="something else"):
        compare(request, [Cell("mf", "normal")], Results(tmp_path))


def test_tables_show_means_tests_and_the_closed_form_models(data, tmp_path):
    cells = cells_of(["mf"], ["normal", "rce"], {})
    request = Request(data, seeds=2, epochs=2, say=quiet)
    results = compare(request, cells, Results(tmp_path))
    means, tests = render(request, cells, results)
    assert [row[0] for row in means.rows] == ["mf + normal", "mf + rce", "popularity", "ease"]
    assert [row[0] for row in tests.rows] == ["mf + rce", "popularity", "ease"]
    lines = [line for line in results.read() if line["method"] == "normal"]
    shown = float(means.rows[0][means.columns.index("recall@20")].split(" ")[0])
    assert shown == pytest.approx(np.mean([line["metrics"]["recall@20"] for line in lines]), abs=1e-4)
    per_user = results.per_user("ndcg@20")
    assert all(np.mean(per_user[run_key(line)]) == pytest.approx(line["metrics"]["ndcg@20"]) for line in lines)
    assert {path.suffix for path in tmp_path.glob("compare.*")} == {".md", ".html", ".csv", ".tex"}
    with pytest.raises(accord.InputError, match="not among the rows"):
        render(request, cells, results, "mf + nothing")
    with pytest.raises(accord.InputError, match="no finished runs"):
        render(request, [*cells, Cell("gmf", "normal")], results)


def test_trials_spread_every_option_evenly_whatever_the_method(data):
    request = Request(data, common=(("method.alpha", 0.5),))
    for method in ("normal", "deca"):
        first, *tries = trials_of(request, Cell("mf", method), 17)
        assert first == Cell("mf", method)  # its defaults
        assert len(set(tries)) == 16
        l2 = sorted(dict(cell.options)["train.l2"] for cell in tries)
        assert l2 == sorted({SPACE["train.l2"].at((n + 0.5) / 16) for n in range(16)})
    assert all("method.alpha" not in dict(cell.options) for cell in tries)  # given, so not tuned
    for name in ("method.c1", "method.c2"):
        values = [dict(cell.options)[name] for cell in tries]
        assert all(values.count(value) == 4 for value in SPACE[name].values)
    assert trials_of(request, Cell("mf", "normal"), 1) == [Cell("mf", "normal")]
    assert trials_of(request, Cell("popularity", None), 16) == [Cell("popularity", None)]


def test_tuning_gives_every_method_equally_many_trials(data, tmp_path):
    cells = cells_of(["mf"], ["normal", "deca"], {})
    request = Request(data, seeds=2, epochs=2, say=quiet)
    tuning = Results(tmp_path, "tuning")
    with pytest.raises(accord.InputError, match="lacks trials"):
        tuned(request, cells, 4, tuning, finished=True)
    best = tuned(request, cells, 4, tuning)
    trials = tuning.read()
    for method in ("normal", "deca"):
        own = [line for line in trials if line["method"] == method]
        assert len(own) == 4
        chosen = next(cell for cell in best if cell.method == method)
        winner = max(own, key=lambda line: line["valid_ndcg@20"])
        assert all(winner["settings"][name] == value for name, value in chosen.options)
    assert len([line for line in trials if line["model"] == "ease"]) == 4
    assert {path.name for path in tmp_path.iterdir()} == {"tuning.jsonl"}
    assert tuned(request, cells, 4, tuning, finished=True) == best
    with pytest.raises(accord.InputError, match="corrected"):
        tuned(Request(data, protocol="published", say=quiet), cells, 2, tuning)


def test_runs_of_other_folders_are_taken_over_in_the_order_of_one_command(data, tmp_path, monkeypatch):
    cells = {model: cells_of([model], ["normal"], {}) for model in ("mf", "gmf")}
    both = cells_of(["mf", "gmf"], ["normal"], {})
    request = Request(data, seeds=2, epochs=1, say=quiet)
    whole = compare(request, both, Results(tmp_path / "whole"))
    for model, own in cells.items():
        compare(request, own, Results(tmp_path / model))
    sizes = sizes_of_stacks(monkeypatch)
    joined = Results(tmp_path / "joined")
    compare(replace(request, known=(tmp_path / "gmf", tmp_path / "mf")), both, joined)
    assert sizes == []
    assert [run_key(line) for line in joined.read()] == [run_key(line) for line in whole.read()]
    mine, theirs = joined.per_user("ndcg@20"), whole.per_user("ndcg@20")
    assert mine.keys() == theirs.keys()
    assert all(np.array_equal(mine[key], theirs[key]) for key in mine)


def test_what_every_user_got_ends_in_one_file(data, tmp_path):
    results = Results(tmp_path)
    cells = cells_of(["mf"], ["normal"], {})
    compare(Request(data, seeds=2, epochs=1, say=quiet), cells, results)
    before = results.per_user("recall@20")
    assert {path.name for path in tmp_path.iterdir()} == {"results.jsonl", "results.per_user.parquet"}
    compare(Request(data, seeds=3, epochs=1, say=quiet), cells, results)
    after = results.per_user("recall@20")
    assert {path.name for path in tmp_path.iterdir()} == {"results.jsonl", "results.per_user.parquet"}
    assert set(after) == {run_key(line) for line in results.read()} > set(before)
    assert all(np.array_equal(after[key], values) for key, values in before.items())


def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    rows = {(f"a{rng.integers(40)}", f"b{int(30 * rng.random() ** 2)}") for _ in range(900)}
    lines = "".join(f"{u};{i};{rng.integers(1, 6)}\n" for u, i in sorted(rows))
    (tmp_path / "other.csv").write_text("who;what;stars\n" + lines)
    words = "compare other.csv --user-col who --item-col what --models mf --methods normal,tce --seeds 2 --epochs 1"

    def run(more=""):
        monkeypatch.setattr(sys, "argv", ["accord", *words.split(), *more.split()])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return stop.value.code, said.out, said.err

    code, out, err = run()
    assert code == 0, err
    assert all(name in out for name in ("mf + normal", "mf + tce", "popularity", "ease", "Holm"))
    before = (tmp_path / "runs/other-compare/results.jsonl").read_text()
    (tmp_path / "runs/other-compare/compare.md").unlink()
    code, again, _ = run("--render-only")
    assert code == 0
    assert again == out
    assert (tmp_path / "runs/other-compare/compare.md").exists()
    assert (tmp_path / "runs/other-compare/results.jsonl").read_text() == before
    for mistake, expected in (
        ("--set method.zz=1,2", "none of the models"),
        ("--methods nrmal", "did you mean 'normal'"),
    ):
        code, _, err = run(mistake)
        assert code == 2
        assert expected in err


def test_the_guess_of_memory_grows_with_weights_and_batches(data):
    def guess(model, **options):
        given = {key.replace("_", ".", 1): value for key, value in options.items()}
        return memory.bytes_of_a_run(comparing.plan(data, model, "normal", "corrected", 1, given, 1, None), data)

    assert guess("neumf") > guess("gmf", model_dim=64) > guess("gmf")
    assert guess("gmf", train_batch_size=9000) > guess("gmf")
    assert guess("cdae") > guess("cdae", train_batch_size=10)
