"""Python, the command line and the server answer alike, whatever the model."""

from __future__ import annotations

import json
import warnings

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import accord
from accord.cli.app import app
from accord.models import MODELS
from accord.serve.api import make_app
from accord.serve.guard import Rules
from helpers import needs_times, with_dim, with_times
from serving import Client, clicks, make_holder

MEMBERS = [{"model": "ease", "weight": 2.0}, {"model": "ials", "options": {"model.dim": 4}}, {"model": "popularity"}]
OPTIONS = {"auto": {"model.budget": 0.2}, "consensus": {"model.members": MEMBERS}}


@pytest.fixture(scope="module", params=MODELS)
def asked(request, tmp_path_factory):
    """A run of every model, to be asked in three ways."""
    folder = tmp_path_factory.mktemp(request.param) / "run"
    made = with_times(clicks()) if needs_times(request.param) else clicks()
    ids = made.items.ids.to_pylist()
    info = pa.table(
        {"id": ids, "title": [f"Film {i}" for i in ids], "genre": ["drama|war", "comedy"] * (len(ids) // 2)}
    )
    rows = pa.concat_tables([part.table for part in (made.train, made.valid, made.test)])
    data = accord.load(rows, items=info)
    options = OPTIONS.get(request.param) or with_dim(request.param)
    method = None if MODELS[request.param].solved else "normal"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        accord.fit(data, request.param, method, options=options, epochs=2 if method else None, out=folder)
    return accord.Recommender.load(folder), folder, Client(make_app(make_holder(folder), Rules()))


def printed(*words):
    done = CliRunner().invoke(app, [*map(str, words), "--format", "json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def nearly(value):
    """Figures to float tolerance, all else as it is: a command for a few users sums without the compiled loops."""
    if isinstance(value, list):
        return [nearly(entry) for entry in value]
    if isinstance(value, dict):
        return {name: nearly(entry) for name, entry in value.items()}
    return pytest.approx(value, rel=1e-6, abs=1e-6) if isinstance(value, float) else value


# of which one is asked of every model, and the others of one: what is chosen from does not depend on the model
CHOICES = [{"where": ["genre=drama"], "exclude": ["i0001"]}, {}, {"allow": ["i0001", "i0002", "i0003", "i0009"]},
           {"exclude": ["i0004", "i0005"]}]  # fmt: skip


def words_of(choice):
    return [word for name, values in choice.items() for value in values for word in (f"--{name}", value)]


def choices_of(folder):
    return CHOICES if folder.parent.name.startswith("ease") else CHOICES[:1]


def test_recommendations_are_the_same(asked):
    rec, folder, client = asked
    for choice in choices_of(folder):
        compare_recommendations(rec, folder, client, choice)


def compare_recommendations(rec, folder, client, choice):
    for user in ("u0002", "nobody"):
        table = rec.with_titles(rec.recommend([user], 6, **choice)).to_pylist()
        assert table or choice
        assert printed("recommend", folder, "--user", user, "--k", 6, *words_of(choice)) == nearly(table)
        answer = client.get("/v1/recommendations", params={"user": user, "k": 6, **choice}).json()
        named = ("rank", "item", "title", "score")
        assert [{name: entry[name] for name in named} for entry in answer["items"]] == [
            {name: row[name] for name in named} for row in table
        ]
        assert not table or answer["source"] == table[0]["source"]
        posted = client.post("/v1/recommendations", json={"users": [user], "k": 6, **choice}).json()["lists"][0]
        assert posted == answer


def test_recommendations_from_a_history_are_the_same(asked):
    rec, folder, client = asked
    choice = CHOICES[2] if folder.parent.name.startswith("ease") else {}
    history = ["i0003", "i0001", "i0008"]
    table = rec.with_titles(rec.recommend(["new"], 5, history={"new": history}, **choice)).to_pylist()
    words = ["--user", "new", "--history", ",".join(history), "--k", 5, *words_of(choice)]
    assert printed("recommend", folder, *words) == nearly(table)
    answer = client.post("/v1/recommendations/history", json={"history": history, "k": 5, **choice}).json()
    assert [entry["score"] for entry in answer["items"]] == [row["score"] for row in table]
    assert [entry["item"] for entry in answer["items"]] == [row["item"] for row in table]


def test_similar_items_are_the_same(asked):
    rec, folder, client = asked
    for choice in choices_of(folder):
        compare_similar(rec, folder, client, choice)


def compare_similar(rec, folder, client, choice):
    table = rec.with_titles(rec.similar(["i0003", "i0008"], 5, **choice)).to_pylist()
    assert printed("similar", folder, "i0003", "i0008", "--k", 5, *words_of(choice)) == nearly(table)
    for item in ("i0003", "i0008"):
        answer = client.get("/v1/similar", params={"item": item, "k": 5, **choice}).json()
        assert [{"similar_to": item, **entry} for entry in answer["items"]] == [
            row for row in table if row["similar_to"] == item
        ]
        assert item not in {row["item"] for row in answer["items"]}


def test_scores_are_the_same_and_those_of_the_lists(asked, tmp_path):
    rec, folder, client = asked
    lists = rec.recommend(["u0002"], 4)
    items = lists.column("item").to_pylist()
    table = rec.with_titles(rec.score(["u0002"] * 4, items)).to_pylist()
    assert [row["score"] for row in table] == lists.column("score").to_pylist()
    named = [word for item in items for word in ("--item", item)]
    assert printed("score", folder, "--user", "u0002", *named) == nearly(table)
    (tmp_path / "pairs.csv").write_text("user,item\n" + "".join(f"u0002,{item}\n" for item in items))
    assert printed("score", folder, "--pairs", tmp_path / "pairs.csv") == nearly(table)
    answer = client.get("/v1/scores", params={"user": "u0002", "item": items}).json()
    assert [{"user": "u0002", **entry} for entry in answer["items"]] == table


def test_reasons_are_the_same(asked):
    rec, folder, client = asked
    lists = rec.recommend(["u0002"], 4)
    table = rec.explain(lists.column("user"), lists.column("item")).to_pylist()
    shown = printed("explain", folder, "--user", "u0002", "--k", 4)
    assert [{name: row[name] for name in table[0]} for row in shown] == nearly(table) if table else not shown
    answer = client.get("/v1/recommendations", params={"user": "u0002", "k": 4, "why": True}).json()
    alone = client.get("/v1/why", params={"user": "u0002", "item": lists.column("item").to_pylist()}).json()
    assert [entry["why"] for entry in alone["items"]] == [entry["why"] for entry in answer["items"]]
    found = [
        {"item": entry["item"], "because": own["item"], "value": own[by], "by": by}
        for entry in answer["items"]
        for own in entry["why"]
        for by in ("contribution", "similarity")
        if by in own
    ]
    assert found == [{name: row[name] for name in ("item", "because", "value", "by")} for row in table]
