"""What users refuse: honoured from the request on, whatever is asked for, and kept in a file that trains too."""

from __future__ import annotations

import pytest

import accord
from accord.errors import InputError
from accord.serve import refusals
from accord.serve.api import make_app
from accord.serve.guard import Rules
from accord.serve.refusals import Refusals
from serving import Client, clicks, make_holder, run  # noqa: F401


def items(client, user, **options):
    answer = client.get("/v1/recommendations", params={"user": user, "k": 40, **options}).json()
    many = client.post("/v1/recommendations", json={"users": ["u0005", user], "k": 40}).json()["lists"][1]
    assert options or many["items"] == answer["items"]
    return [entry["item"] for entry in answer["items"]]


@pytest.mark.parametrize("user", ["u0002", "<b>bold</b>", "somebody new"])
def test_a_refusal_is_honoured_at_once_and_by_the_next_server(run, tmp_path, user):  # noqa: F811
    file = tmp_path / "refused.csv"
    client = Client(make_app(make_holder(run, refusals=file), Rules()))
    before, of_another = items(client, user), items(client, "u0003")
    refused = before[:2]
    for item in [*refused, refused[0]]:
        answer = client.post("/v1/refusals", json={"user": user, "item": item})
        assert answer.json() == {"user": user, "item": item, "kept": True}
    assert items(client, user) == [item for item in before if item not in refused]
    assert items(client, user, exclude=before[2]) == before[3:]
    assert items(client, "u0003") == of_another
    client.post("/reload")
    assert not set(refused) & set(items(client, user))
    with file.open("a") as cut:
        cut.write("u0003,i00")  # a process that ended while it wrote
    again = Client(make_app(make_holder(run, refusals=file), Rules()))
    assert items(again, user) == [item for item in before if item not in refused]
    assert items(again, "u0003") == of_another
    assert file.read_text().splitlines() == ["user,item,label", *(f"{user},{item},0" for item in refused)]


def test_the_file_is_one_of_labels(run, tmp_path):  # noqa: F811
    file = tmp_path / "refused.csv"
    client = Client(make_app(make_holder(run, refusals=file), Rules()))
    refused = items(client, "u0002")[0]
    client.post("/v1/refusals", json={"user": "u0002", "item": refused})
    log = clicks().train.table.select(["user", "item"])
    data = accord.load(log, labels=str(file))
    assert data.outside.table.select(["user", "item"]).to_pylist() == [{"user": "u0002", "item": refused}]
    assert refused not in accord.fit(data, "popularity").recommend(["u0002"], k=40)["item"].to_pylist()


def test_without_a_file_it_says_that_it_is_not_kept(run):  # noqa: F811
    client = Client(make_app(make_holder(run), Rules()))
    first = items(client, "u0002")[0]
    assert client.post("/v1/refusals", json={"user": "u0002", "item": first}).json()["kept"] is False
    assert first not in items(client, "u0002")
    unknown = client.post("/v1/refusals", json={"user": "u0002", "item": "nothing"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "unknown_item")


def full_disk(_):
    raise OSError(28, "No space left on device")


def test_a_file_that_cannot_be_written_or_read(run, tmp_path, monkeypatch):  # noqa: F811
    file = tmp_path / "refused.csv"
    client = Client(make_app(make_holder(run, refusals=file), Rules()))
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full_disk)
        assert client.post("/v1/refusals", json={"user": "u0002", "item": "i0002"}).status_code == 503
    file.write_text("user,item,label\nu0002,i0002,1\nu0002,i0004,\nu0002,i0006,0\nu0002,i0008,0.5\n")
    assert set(Refusals(file).of("u0002")) == {"i0006"}, "what a label calls real, or neither, is not refused"
    file.unlink()
    file.mkdir()
    answer = client.post("/v1/refusals", json={"user": "u0002", "item": "i0002"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_kept")
    assert str(tmp_path) not in answer.text
    for content in ("a,b\n", "user,item,label\n1,2\n", "user,item,label\n1,2,no\n"):
        other = tmp_path / "other.csv"
        other.write_text(content)
        with pytest.raises(InputError, match="cannot be read as lines of user,item,label"):
            Refusals(other)
    monkeypatch.setattr(refusals, "MOST", 0)
    full = Client(make_app(make_holder(run), Rules())).post("/v1/refusals", json={"user": "u0002", "item": "i0002"})
    assert full.json()["error"]["code"] == "refusals_full"
