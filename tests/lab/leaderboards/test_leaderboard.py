"""The leaderboard: rows, shares, tests, and pages from files alone."""

from __future__ import annotations

import json

import numpy as np
import pytest

import accord
from accord.comparing.results import Results
from accord.errors import InputError
from accord.evaluation import noise as accord_noise
from accord.evaluation.significance import compare_to, holm
from accord_lab.leaderboards import leaderboard
from comparisons import ask, titled


@pytest.fixture(scope="module")
def board(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("board")
    leaderboard.run([data], ask, folder, ["mf", "gmf"], ["normal", "rce", "deca"], trials=3)
    return folder


def test_rows_are_tuned_equally_and_all_are_there(board):
    trials = Results(board, "tuning").read()
    rows = {(line["model"], line["method"]) for line in trials}
    counts = {row: sum((line["model"], line["method"]) == row for line in trials) for row in rows}
    assert ("popularity", "none") not in counts  # nothing to choose
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
    beliefs = np.asarray(alone.beliefs(data.train).column("belief"))
    assert line["noise"]["auc"] == pytest.approx(accord_noise.auc(beliefs, real), abs=0.01)
    assert line["noise"]["brier"] == pytest.approx(np.mean((beliefs - real) ** 2), abs=0.01)
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
