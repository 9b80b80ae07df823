"""The leaderboard and injected noise: rows, shares, tests, pages from files alone, and a kill at any moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import accord
import helpers  # noqa: F401 -- one thread, as the killed process has: bits are equal then
from accord.cli.app import main
from accord.data.load import load
from accord.errors import InputError
from accord.evaluation import noise as accord_noise
from accord.evaluation.significance import compare_to, holm
from accord.experiments import charts, leaderboard, noise_injection
from accord.experiments.compare import Request
from accord.experiments.known_noise import conditions
from accord.experiments.oracle import TOLD, ceiling
from accord.experiments.results import Results


def quiet(*_words):
    pass


@pytest.fixture(scope="module")
def data():
    return accord.simulate(users=120, items=60, interactions=1500, seed=3).dataset


def ask(data):
    return Request(data, seeds=2, epochs=2, say=quiet)


@pytest.fixture(scope="module")
def board(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("board")
    leaderboard.run([data], ask, folder, ["mf", "gmf"], ["normal", "rce", "deca"], trials=3)
    return folder


def titled(parts, ending):
    return next(part for part in parts if part.title.endswith(ending))


def test_rows_are_tuned_equally_and_all_are_there(board):
    trials = Results(board, "tuning").read()
    rows = {(line["model"], line["method"]) for line in trials}
    counts = {row: sum((line["model"], line["method"]) == row for line in trials) for row in rows}
    assert counts.pop(("popularity", "none")) == 1
    assert set(counts.values()) == {3}
    table = titled(leaderboard.render(board), "ranking on the clean test")
    models = [f"{model} + {method}" for model in ("MF", "GMF") for method in ("Normal", "R-CE", "DeCA")]
    assert [row[0] for row in table.rows] == [*models, "popularity", "EASE"]
    lines = [line for line in Results(board, "leaderboard").read() if (line["model"], line["method"]) == ("mf", "rce")]
    mean = np.mean([line["metrics"]["ndcg@20"] for line in lines])
    assert float(table.rows[1][table.columns.index("ndcg@20")].split(" ")[0]) == pytest.approx(mean, abs=6e-5)
    chosen = {line["settings"]["train.l2"] for line in lines}
    own = [line for line in trials if (line["model"], line["method"]) == ("mf", "rce")]
    assert chosen == {max(own, key=lambda line: line["valid_ndcg@20"])["settings"]["train.l2"]}


def test_the_page_needs_no_data_and_no_figures_of_users(board, tmp_path):
    for name in ("leaderboard.json", "leaderboard.jsonl"):
        (tmp_path / name).write_bytes((board / name).read_bytes())
    leaderboard.render(tmp_path)
    for path in board.glob("leaderboard*.*"):
        if path.suffix in {".md", ".html", ".csv", ".tex", ".svg"}:
            assert (tmp_path / path.name).read_text() == path.read_text(), path.name
    (tmp_path / "leaderboard.jsonl").write_text("")
    with pytest.raises(InputError, match="lacks runs"):
        leaderboard.render(tmp_path)
    (tmp_path / "leaderboard.json").unlink()
    with pytest.raises(InputError, match="nothing was finished"):
        leaderboard.render(tmp_path)


def test_tests_are_paired_and_corrected_over_all_models(board):
    entry = json.loads((board / "leaderboard.json").read_text())["demo"]
    per_user = Results(board, "leaderboard").per_user("ndcg@20")
    values = {leaderboard.row_name(row): np.stack([per_user[key] for key in row["runs"]]) for row in entry["rows"]}
    ps = {}
    for model in ("MF", "GMF"):
        others = {f"{model} + {m}": values[f"{model} + {m}"] for m in ("R-CE", "DeCA")}
        for name, test in compare_to(values[f"{model} + Normal"], others).items():
            assert entry["tests"]["normal"][name]["difference"] == pytest.approx(test.difference)
            ps[name] = test.p
    assert [entry["tests"]["normal"][name]["p_holm"] for name in ps] == pytest.approx(holm(list(ps.values())))
    plain = ("MF + Normal", "GMF + Normal", "popularity", "EASE")
    assert entry["best"] == max(plain, key=lambda name: values[name].mean())
    assert set(entry["tests"]["best"]) == set(values) - {entry["best"]}


def test_lines_say_how_noise_was_found(board, data):
    lines = Results(board, "leaderboard").read()
    real = data.train.column("value") == 1
    for line in lines:
        noise = line["noise"]
        assert noise["pairs"] == len(real)
        assert ("ece" in noise) == (line["method"] != "none")
    line = next(one for one in lines if one["method"] == "deca")
    options = {k: v for k, v in line["settings"].items() if k.startswith(("method.c", "method.alpha", "train.l2"))}
    alone = accord.fit(data, line["model"], "deca", seeds=[line["seed"]], options=options, epochs=2)
    p_real = np.asarray(alone.noise(data.train).column("p_real"))
    assert line["noise"]["auc"] == pytest.approx(accord_noise.auc(p_real, real), abs=0.01)
    assert line["noise"]["brier"] == pytest.approx(np.mean((p_real - real) ** 2), abs=0.01)
    popularity = next(one for one in lines if one["model"] == "popularity")["noise"]
    counts = data.csr(data.train).popularity()[data.items.rows(data.train.items)]
    assert popularity["auc"] == pytest.approx(accord_noise.auc(counts, real))


def fake(model, method, ndcg, warm, cold=None):
    groups = {"warm": {"ndcg@20": warm}, "cold": {} if cold is None else {"ndcg@20": cold}}
    return leaderboard.Row(model, method, [{"metrics": {"ndcg@20": ndcg}, "groups": groups}])


def test_shares_of_the_ceiling():
    rows = [
        fake("gmf", "normal", 0.10, 0.2, 0.1),
        fake("gmf", "deca", 0.16, 0.3, 0.1),
        fake("ease", None, 0.12, 0.2, 0.1),
    ]
    table = leaderboard._shares("Data", rows, fake("ease-told", None, 0.20, 0.4, 0.2))
    assert [row[1:] for row in table.rows] == [
        ("-25%", None, "+0%", None),
        ("+50%", "+75%", "+50%", "+50%"),
        ("+0%", None, "+0%", None),
    ]


@pytest.mark.parametrize(
    ("name", "figures"),
    [("ml-100k", (0.1368, 0.2976, 0.1385, 0.1871)), ("modcloth", (0.1100, 0.2957, 0.0756, 0.1285))],
)
def test_the_ceiling_is_that_of_the_paper_notes(shared_data, name, figures):
    line = ceiling(Request(load(shared_data / name)), (5, 20))
    assert [line["metrics"][m] for m in leaderboard.METRICS] == pytest.approx(figures, abs=6e-5)


def test_there_is_no_ceiling_without_known_ratings(data):
    assert data.name not in TOLD
    assert ceiling(Request(data), (5, 20)) is None


# --- injected noise


def rated(data):
    """The data with ratings instead of labels, so that noise has to be put in."""
    table = data.train.table.set_column(2, "value", [np.where(data.train.column("value") == 1, 5.0, 2.0)])
    return replace(data, name="rated", train=accord.Interactions(table))


def test_conditions_hold_the_noise_they_say(data):
    found = list(conditions(rated(data), ["uniform", "user"], [0.1, 0.4]))
    assert [(one.kind, one.rate) for one in found] == [("none", 0.0)] + [
        (kind, rate) for kind in ("uniform", "user") for rate in (0.1, 0.4)
    ]
    before = set(zip(*rows_of(data), strict=True))
    for one in found[1:]:
        assert 1 - one.labelled.real.mean() == pytest.approx(one.rate, abs=0.005)
        pairs = set(zip(one.labelled.users[one.labelled.real], one.labelled.items[one.labelled.real], strict=True))
        assert pairs == before
    clean, noisy = conditions(data, ["uniform"], [0.1])
    assert (clean.data.train.column("value") == 1).all()
    assert (noisy.kind, len(noisy.data.train)) == ("built-in", len(data.train))
    assert noisy.rate == pytest.approx(1 - len(clean.data.train) / len(data.train))


def rows_of(data):
    return data.users.rows(data.train.users).tolist(), data.items.rows(data.train.items).tolist()


def test_injected_noise_from_runs_to_page(data, tmp_path):
    parts = noise_injection.run(
        [rated(data), data], ask, tmp_path, ["mf"], ["normal", "rce"], trials=0, kinds=["uniform"], rates=[0.2, 0.4]
    )
    lines = Results(tmp_path, "injected").read()
    assert len(lines) == 3 * 6 + 2 * 6
    assert {(line["injected"]["kind"], line["injected"]["rate"]) for line in lines if line["dataset"] == "rated"} == {
        ("none", 0.0), ("uniform", 0.2), ("uniform", 0.4),
    }  # fmt: skip
    table = titled(parts, "what the noise costs")
    runs = [x for x in lines if (x["dataset"], x["model"], x["method"]) == ("rated", "mf", "rce")]
    clean = [x["injected"]["ndcg@20"]["uniform 0.4"] for x in runs if x["injected"]["kind"] == "none"]
    noisy = [x["metrics"]["ndcg@20"] for x in runs if x["injected"]["rate"] == 0.4]
    change = np.mean(np.array(noisy) / np.array(clean) - 1)
    row = next(row for row in table.rows if row[0] == "MF + R-CE")
    assert row[table.columns.index("uniform 40%")].startswith(f"{change:+.1%}")
    assert {path.suffix for path in tmp_path.glob("injected*")} == {
        ".json", ".jsonl", ".md", ".html", ".csv", ".tex", ".svg",
    }  # fmt: skip
    page = (tmp_path / "injected.html").read_text()
    noise_injection.render(tmp_path)
    assert (tmp_path / "injected.html").read_text() == page
    with pytest.raises(InputError, match="--rates are shares"):
        noise_injection.run([data], ask, tmp_path, rates=[1.0])
    with pytest.raises(InputError, match=r"'uniform 0\.3'.* another --out"):
        noise_injection.run([rated(data)], ask, tmp_path, ["mf"], ["normal"], trials=0, kinds=["uniform"], rates=[0.3])


def test_what_is_trained_without_noise_ranks_what_its_rivals_rank(data):
    clean, noisy = conditions(rated(data), ["uniform"], [0.4])
    trained = accord.fit(clean.data, "mf", "normal", epochs=1)
    said = clean.more(trained)[0]["injected"]
    alike = accord.fit(clean.data, "mf", "normal", epochs=1)
    alike.seen = noisy.data.csr(noisy.data.train).merge(noisy.data.csr(noisy.data.valid))
    by_hand = alike.evaluate(ks=[20]).mean()[0]["ndcg@20"]
    assert said["ndcg@20"] == {"uniform 0.4": pytest.approx(by_hand)}
    assert by_hand > trained.metrics["mean"]["ndcg@20"]  # a shorter list: why they must rank the same


def test_methods_of_ones_own_can_be_drawn():
    values = np.array([0.1, 0.2])
    figure = charts.ranking("x.svg", "Data", [("GMF + mine", "my.module:Mine", values), ("EASE", "ease", values)], 0.3)
    assert "GMF + mine" in figure.svg
    assert "EASE told the ratings" in figure.svg


# --- the command line


def command(monkeypatch, capsys, words):
    monkeypatch.setattr(sys, "argv", ["accord", *words.split()])
    with pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr()
    return stop.value.code, said.out, said.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("leaderboard demo --seeds 0", "--seeds is at least 1"),
        ("leaderboard demo --models gmff", "did you mean 'gmf'"),
        ("leaderboard demo --methods dca", "did you mean 'deca'"),
        ("leaderboard nowhere.csv", "nowhere.csv"),
        ("leaderboard demo --from nowhere", "no such folder"),
        ("leaderboard --render-only", "nothing was finished"),
        ("injected --render-only", "nothing was finished"),
        ("injected demo --rates 0.1,x", "--rates '0.1,x'"),
        ("injected demo --rates 1.5", "--rates are shares"),
        ("injected demo --kinds unifrm", "did you mean 'uniform'"),
    ],
)
def test_mistakes_end_in_one_sentence(monkeypatch, capsys, tmp_path, words, sentence):
    monkeypatch.chdir(tmp_path)
    code, out, err = command(monkeypatch, capsys, words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def without_times(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def test_killed_at_any_moment_it_ends_with_the_same_results(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = "leaderboard small.csv --models mf --methods normal,rce --seeds 2 --tune 3 --epochs 2 --device cpu --out "
    rng = np.random.default_rng(1)
    pairs = sorted({(int(rng.integers(60)), int(40 * rng.random() ** 2)) for _ in range(1200)})
    rows = "".join(f"{u},{i},{rng.integers(1, 6)}\n" for u, i in pairs)
    (tmp_path / "small.csv").write_text("user,item,rating\n" + rows)
    written = [tmp_path / "cut" / f"{name}.jsonl" for name in ("tuning", "leaderboard")]
    for count in (3, 12):  # lines of results after which it is killed: 10 are of tuning, 6 of the runs
        process = subprocess.Popen(
            [sys.executable, "-m", "accord", *words.split(), "cut"],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
        )
        while process.poll() is None:
            if sum(file.read_text().count("\n") for file in written if file.exists()) >= count:
                process.send_signal(signal.SIGKILL)
            time.sleep(0.002)
        assert process.returncode == -signal.SIGKILL, process.communicate()[1]
        process.stderr.close()
    for folder in ("cut", "whole"):
        code, _, err = command(monkeypatch, capsys, words + folder)
        assert code == 0, err
    for name in ("tuning.jsonl", "leaderboard.jsonl"):
        assert without_times(tmp_path / "cut" / name) == without_times(tmp_path / "whole" / name)
    for name in ("leaderboard.json", "leaderboard.md"):
        assert (tmp_path / "cut" / name).read_text() == (tmp_path / "whole" / name).read_text()
    assert {path.name for path in (tmp_path / "cut").iterdir()} == {
        path.name for path in (tmp_path / "whole").iterdir()
    }
