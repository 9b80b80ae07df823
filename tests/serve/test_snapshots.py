"""A snapshot answers as the recommender does, whatever happens to its folder."""

from __future__ import annotations

import itertools
import shutil
import threading
import time

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import accord
from accord import Recommender
from accord.errors import InputError
from accord.serve import snapshots
from accord.serve.api import as_json, make_app
from accord.serve.guard import Rules
from accord.serve.snapshots import Search, Snapshot, fold
from logs import about, log_of_kinds
from serving import (  # noqa: F401  # noqa: F401
    Client,
    make_holder,
    run,
    serving,
    train,
)


def listed(answer):
    return [entry["item"] for entry in answer["items"]]


@pytest.mark.parametrize("model", ["mf", "neumf", "cdae", "lightgcn", "popularity", "ease"])
def test_every_model_gives_the_lists_of_the_recommender(tmp_path, model):
    folder = train(tmp_path / "run", model, epochs=1)
    recommender, snapshot = Recommender.load(folder), Snapshot.load(folder)
    for user in recommender.users.ids.to_pylist()[::7]:
        table = recommender.recommend([user], 10)
        answer = snapshot.recommend(user, 10, why=True)
        assert listed(answer) == table.column("item").to_pylist()
        assert [entry["score"] for entry in answer["items"]] == table.column("score").to_pylist()
        assert {answer["source"]} == set(table.column("source").to_pylist())
        seen = {entry["item"] for entry in snapshot.history(user)["items"]}
        named = [reason["item"] for entry in answer["items"] for reason in entry["why"]]
        assert bool(named) == (model != "popularity"), "of which a history says nothing"
        assert set(named) <= seen
    history = listed(snapshot.recommend("u0002", 4))
    table = recommender.recommend(["new"], 10, history={"new": history})
    assert listed(snapshot.from_history(history, 10)) == table.column("item").to_pylist()
    similar = snapshot.similar("i0003", 39)
    assert len(similar["items"]) == 39
    assert similar["item"] not in listed(similar)


def test_new_items_are_answered_as_by_the_recommender(tmp_path):
    members = [{"model": "ease", "options": {"model.l2": 20}, "weight": 0.5}, {"model": "item-knn", "weight": 0.5}]
    log, file = accord.load(log_of_kinds(), items=pa.table(about(*range(100)))), tmp_path / "new.csv"
    accord.fit(log, "consensus", options={"model.members": members}, out=tmp_path / "run")
    pa.csv.write_csv(pa.table(about(200, 201, 202, 203)), file)
    snapshot = Snapshot.load(tmp_path / "run", items=file)
    asked = Recommender.load(tmp_path / "run").with_items(file)
    answer = snapshot.recommend("u001", 94, why=True)
    assert listed(answer) == asked.recommend(["u001"], 94)["item"].to_pylist()
    new = {entry["item"]: entry for entry in answer["items"] if entry["item"] >= "i200"}
    assert len(new) == 4
    assert all(("agreement" in entry) == (entry["item"] not in new) for entry in answer["items"])
    reasons = asked.explain(["u001"], ["i201"])
    assert [reason["item"] for reason in new["i201"]["why"]] == reasons["because"].to_pylist()
    assert [reason["shared"] for reason in new["i201"]["why"]] == reasons["shared"].to_pylist()
    assert "attributes" in snapshot.why("u001", ["i201"])["items"][0]["why"][0]
    only_new = snapshot.recommend("u001", 1, snapshot.barred((), ["i201"]), why=True)["items"]
    assert [entry["item"] for entry in only_new] == ["i201"]
    others = [reason for entry in answer["items"] if entry["item"] not in new for reason in entry["why"]]
    assert others
    assert all("contribution" in reason for reason in others)
    assert (
        listed(snapshot.from_history(["i002", "i006"], 9))[0]
        == asked.recommend(["new"], 1, history={"new": ["i002", "i006"]})["item"].to_pylist()[0]
    )
    assert listed(snapshot.similar("i201", 5)) == asked.similar(["i201"], 5)["item"].to_pylist()
    assert snapshot.find_items("i203", 3)["items"] == [{"item": "i203", "title": None, "interactions": 0}]
    pa.csv.write_csv(pa.table(about(*range(100))), file)
    assert len(Snapshot.load(tmp_path / "run", items=file).item_ids) == 100, "a later run may have them all"


def test_large_integer_ids_come_as_text(tmp_path):
    users = [user for user in range(6) for _ in range(5)]
    items = [2**60 + (user + n) % 8 for user in range(6) for n in range(5)]
    accord.fit(accord.load(pa.table({"user": users, "item": items})), "popularity", out=tmp_path / "run")
    answer = Snapshot.load(tmp_path / "run").recommend(1, 3)
    assert answer["user"] == 1
    assert all(entry["item"].startswith(str(2**60)[:-2]) for entry in answer["items"])


def test_a_folder_that_changes_while_it_is_read_is_read_again(run, monkeypatch):  # noqa: F811
    states = iter([(1, 1, 1), (2, 2, 2), (2, 2, 2), (2, 2, 2)])
    monkeypatch.setattr("accord.serve.snapshots.identity_of", lambda _: next(states))
    assert Snapshot.load(run).identity == (2, 2, 2)
    changing = iter(range(100))
    monkeypatch.setattr("accord.serve.snapshots.identity_of", lambda _: next(changing))
    with pytest.raises(InputError, match="changed again and again while it was read"):
        Snapshot.load(run)


def test_search_puts_the_id_itself_first():
    found = Search(pa.array([15, 5, 51, 500]), None, np.array([9, 1, 2, 3]))
    assert found.find("5", 10) == [1, 3, 2, 0]  # itself, those that begin so by frequency, those that hold it
    assert found.find("", 2) == [0, 3]


@pytest.mark.parametrize(
    ("text", "plain"),
    [("ABC", "abc"), ("Amélie", "amelie"), ("STRASSE ß", "strasse ss"), ("", ""), ("ΟΔΟΣ ς", "οδοσ σ")],
)
def test_case_and_accents_do_not_matter(text, plain):
    assert fold(pa.array([text])).to_pylist() == [plain]


def test_every_word_must_be_in_the_id_or_the_title():
    found = Search(pa.array(["a1", "a2", "a3"]), pa.array(["Amélie (2001)", None, "Heat 2001"]), np.array([1, 5, 3]))
    assert found.find("AMELIE 2001", 10) == [0]
    assert found.find("2001", 10) == [2, 0]  # the more frequent first
    assert found.find("a", 2) == [1, 2]
    assert found.find("2001 nothing", 10) == []


@pytest.fixture(scope="module")
def served(run):  # noqa: F811
    return make_holder(run)


def client(served, **rules):
    return Client(make_app(served, Rules(**rules)))


def test_a_new_run_takes_the_place_of_the_old_without_a_failed_request(tmp_path):
    folder, other = train(tmp_path / "run"), train(tmp_path / "other", "mf", seed=1)
    link = tmp_path / "current"
    link.symlink_to(folder)
    answers, stop = [], threading.Event()

    def ask(address):
        with httpx.Client(base_url=address) as asks:
            while not stop.is_set():
                answer = asks.get("/v1/recommendations?user=u0002&k=5")
                answers.append((answer.status_code, answer.text))

    with serving(make_holder(link)) as address:
        threads = [threading.Thread(target=ask, args=(address,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for number in range(6):
            link.unlink()
            link.symlink_to(folder if number % 2 else other)
            told = httpx.post(f"{address}/reload", timeout=60).json()
            assert told["model"] == ("gmf" if number % 2 else "mf")
        stop.set()
        for thread in threads:
            thread.join()
    wanted = {as_json(Snapshot.load(path).recommend("u0002", 5)).body.decode() for path in (folder, other)}
    assert len(answers) > 20
    assert {status for status, _ in answers} == {200}
    assert {text for _, text in answers} == wanted  # whole lists of one run or the other, never a mixture


def test_a_broken_run_leaves_the_old_one_serving(tmp_path, run, caplog):  # noqa: F811
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    asks = client(make_holder(folder))
    before = asks.get("/v1/recommendations?user=u0002").text
    for damage in (
        lambda: (folder / "metrics.json").write_text("{}"),
        lambda: (folder / "model.safetensors").write_bytes(b"\xff" * 100),
        lambda: (folder / "items.parquet").write_bytes(b"PAR1"),
        lambda: (folder / "metrics.json").unlink(),
        lambda: shutil.rmtree(folder),
    ):
        shutil.rmtree(folder)
        shutil.copytree(run, folder)
        damage()
        answer = asks.post("/reload")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "reload_failed")
        assert str(tmp_path) not in answer.text
        assert asks.get("/v1/recommendations?user=u0002").text == before
    assert caplog.text.count("still serving the old run") == 5
    for said in (
        *(f"{name} is not the file" for name in ("metrics.json", "model.safetensors", "items.parquet")),
        "is missing",
    ):
        assert caplog.text.count(said) == 1
    assert 'accord_reloads_total{result="failed"} 5.0' in asks.get("/metrics").text
    shutil.copytree(run, folder)
    assert asks.post("/reload").status_code == 200


def test_a_watched_folder_is_reloaded_by_itself(tmp_path, run, monkeypatch):  # noqa: F811
    monkeypatch.setattr(snapshots, "WATCH_SECONDS", 0.05)
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    with serving(make_holder(folder), watch=True) as address:
        assert httpx.get(f"{address}/v1/about").json()["model"] == "gmf"
        (folder / "metrics.json").write_text("{")  # broken: tried once, and not again every second
        time.sleep(0.5)
        assert httpx.get(f"{address}/v1/about").json()["model"] == "gmf"
        assert 'accord_reloads_total{result="failed"} 1.0' in httpx.get(f"{address}/metrics").text
        train(folder, "popularity")
        for _ in range(100):
            if (now := httpx.get(f"{address}/v1/about").json()["model"]) == "popularity":
                break
            time.sleep(0.1)
        assert now == "popularity"


def test_a_watched_run_that_could_not_be_loaded_for_the_moment_is_tried_again(tmp_path, run, monkeypatch):  # noqa: F811
    monkeypatch.setattr(snapshots, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(snapshots, "RETRY_SECONDS", 0.2)
    folder, other = tmp_path / "run", train(tmp_path / "other", "popularity")
    folder.symlink_to(run)
    held = make_holder(folder)
    load, failures = held._load, iter([OSError(24, "Too many open files"), MemoryError()])

    def short_of_something():
        for error in failures:
            raise error
        return load()

    monkeypatch.setattr(held, "_load", short_of_something)
    with serving(held, watch=True) as address:
        folder.unlink()
        folder.symlink_to(other)
        for _ in range(100):
            if (now := httpx.get(f"{address}/v1/about").json()["model"]) == "popularity":
                break
            time.sleep(0.1)
        assert now == "popularity"
        said = httpx.get(f"{address}/metrics").text
        assert all(
            f'accord_reloads_total{{result="{how}"}} {times}' in said for how, times in (("failed", 2.0), ("done", 1.0))
        )


def test_reloads_do_not_pile_up(served, monkeypatch):
    load, go = served._load, threading.Event()

    def slow_load():
        go.wait(120)
        return load()

    monkeypatch.setattr(served, "_load", slow_load)
    with serving(served) as address:
        answers = []
        first = threading.Thread(target=lambda: answers.append(httpx.post(f"{address}/reload", timeout=120)))
        first.start()
        while not served.is_reloading:
            time.sleep(0.01)
        refused = httpx.post(f"{address}/reload")
        go.set()
        first.join()
    assert answers[0].status_code == 200
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "reloading")
    assert refused.headers["retry-after"] == "1"


def test_a_watched_folder_that_is_overwritten_file_by_file_is_never_served_mixed(tmp_path, run, monkeypatch):  # noqa: F811
    monkeypatch.setattr(snapshots, "WATCH_SECONDS", 0.05)
    folder, other = tmp_path / "run", train(tmp_path / "other", seed=1)
    shutil.copytree(run, folder)
    wanted = [Snapshot.load(path).recommend("u0002", 5) for path in (run, other)]
    assert wanted[0] != wanted[1]
    with serving(make_holder(folder), watch=True) as address:
        for name in sorted(path.name for path in other.iterdir()):  # as cp does it: metrics.json before the weights
            shutil.copyfile(other / name, folder / name)
            time.sleep(0.02)
        found = None
        for _ in range(100):
            found = httpx.get(f"{address}/v1/recommendations?user=u0002&k=5").json()
            assert found in wanted
            if found == wanted[1]:
                break
            time.sleep(0.1)
        assert found == wanted[1]


def test_two_runs_are_never_mixed_while_one_is_copied_over_the_other(tmp_path, run):  # noqa: F811
    """File by file, in every order: the old run answers until all of the new one is there."""
    from accord.recommender.run_folder import FILES, MANIFEST, MODEL

    folder, other = tmp_path / "run", tmp_path / "other"
    shutil.copytree(run, folder)
    rec = accord.Recommender.load(run)
    rec.metrics["mean"] = dict.fromkeys(rec.metrics["mean"], 0.25)
    next(iter(rec.method.state_dict().values())).mul_(-1)
    rec.save(other)
    asks = client(make_holder(folder))
    before = asks.get("/v1/recommendations?user=u0002").json(), asks.get("/v1/about").json()["metrics"]
    changed = [name for name in (*FILES, MODEL, MANIFEST) if (other / name).read_bytes() != (run / name).read_bytes()]
    assert set(changed) == {"metrics.json", MODEL, MANIFEST}
    for names in itertools.permutations(changed):
        shutil.rmtree(folder)
        shutil.copytree(run, folder)
        assert asks.post("/reload").status_code == 200
        for name in names[:-1]:
            shutil.copy(other / name, folder / name)
            assert asks.post("/reload").status_code == 409
            assert (
                asks.get("/v1/recommendations?user=u0002").json(),
                asks.get("/v1/about").json()["metrics"],
            ) == before
        shutil.copy(other / names[-1], folder / names[-1])
        assert asks.post("/reload").status_code == 200
        assert set(asks.get("/v1/about").json()["metrics"].values()) == {0.25}
        assert asks.get("/v1/recommendations?user=u0002").json() != before[0]
