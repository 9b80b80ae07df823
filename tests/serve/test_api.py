"""The server's answers: the recommender's own lists, filters, fold-in, search, and clear errors."""

from __future__ import annotations

import pytest

from accord import Recommender
from accord.serve.api import as_json, make_app
from accord.serve.guard import Rules
from serving import SCRIPT, Client, make_holder, run  # noqa: F401

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def rec(run):  # noqa: F811
    return Recommender.load(run)


@pytest.fixture(scope="module")
def client(run):  # noqa: F811
    return Client(make_app(make_holder(run), Rules()))


def listed(answer):
    return [entry["item"] for entry in answer["items"]]


def test_all_users_have_the_lists_of_the_recommender(client, rec):
    table = rec.with_titles(rec.recommend(None, 8)).to_pylist()
    users = rec.users.ids.to_pylist()
    answer = client.post("/v1/recommendations", json={"users": users, "k": 8}).json()
    assert [entry["user"] for entry in answer["lists"]] == users
    for user, entry in zip(users, answer["lists"], strict=True):
        expected = [row for row in table if row["user"] == user]
        assert listed(entry) == [row["item"] for row in expected]
        assert [row["title"] for row in entry["items"]] == [row["title"] for row in expected]
        assert entry == client.get("/v1/recommendations", params={"user": user, "k": 8}).json()


def test_somebody_unknown_gets_the_popular_items(client, rec):
    answer = client.get("/v1/recommendations", params={"user": "somebody", "k": 5, "why": True}).json()
    assert (answer["known"], answer["source"]) == (False, "popularity")
    assert listed(answer) == rec.recommend(["somebody"], 5).column("item").to_pylist()
    assert all(entry["why"] == [] for entry in answer["items"])


def test_exclude_and_allow(client):
    whole = listed(client.get("/v1/recommendations", params={"user": "u0002", "k": 10}).json())
    without = client.get(
        "/v1/recommendations", params={"user": "u0002", "k": 8, "exclude": [*whole[:2], "no item"]}
    ).json()
    assert listed(without) == whole[2:10]
    only = client.get("/v1/recommendations", params={"user": "u0002", "allow": [*whole[:6:2], "no item"]}).json()
    assert listed(only) == whole[:6:2]
    asked = {"users": ["u0002", "u0003"], "allow": whole[:4], "exclude": whole[:1]}
    for entry in client.post("/v1/recommendations", json=asked).json()["lists"]:
        assert set(listed(entry)) <= set(whole[1:4])
    assert client.post("/v1/recommendations", json={"users": ["u0002"], "allow": []}).json()["lists"][0]["items"] == []
    folded = client.post("/v1/recommendations/history", json={"history": whole[:2], "allow": whole[:5]}).json()
    assert set(listed(folded)) == set(whole[2:5])


def test_a_history_is_folded_in(client, rec):
    history = ["i0002", "i0007", "i0011"]
    answer = client.post(
        "/v1/recommendations/history", json={"history": [*history, "no item"], "k": 6, "why": True}
    ).json()
    with pytest.warns(UserWarning, match="1 item"):
        table = rec.recommend(["new"], 6, history={"new": [*history, "no item"]})
    assert answer["unknown"] == ["no item"]
    assert answer["source"] == "history"
    assert listed(answer) == table.column("item").to_pylist()
    assert {reason["item"] for entry in answer["items"] for reason in entry["why"]} <= set(history)
    nothing = client.post("/v1/recommendations/history", json={"history": []}).json()
    assert nothing["source"] == "popularity"


def test_a_history_comes_with_probabilities(client, rec):
    answer = client.get("/v1/history", params={"user": "u0002"}).json()
    noise = {row["item"]: row["belief"] for row in rec.beliefs(rec.trained_on).to_pylist() if row["user"] == "u0002"}
    given = {entry["item"]: entry["p_real"] for entry in answer["items"]}
    assert noise.keys() <= given.keys()
    assert all(abs(given[item] - value) < 1e-4 for item, value in noise.items())
    assert list(given.values()) == sorted(given.values(), reverse=True)


def test_items_and_users_are_found(client):
    def items(query):
        return [entry["item"] for entry in client.get("/v1/items", params={"q": query}).json()["items"]]

    assert items("FILM i0002") == items("É i0002") == items("i0002") == ["i0002"]
    assert items("i0003") == ["i0003"]  # has no title
    assert "i0001" in items("onerror Film")
    assert items("no such thing") == []
    assert len(items("")) == 20
    users = client.get("/v1/users", params={"q": "bold", "limit": 5}).json()["users"]
    assert [entry["user"] for entry in users] == ["<b>bold</b>"]
    assert users[0]["interactions"] > 0


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/v1/recommendations", None, 422, "invalid"),
        ("GET", "/v1/recommendations?user=u0002&k=0", None, 422, "invalid"),
        ("GET", "/v1/recommendations?user=u0002&k=1001", None, 422, "invalid"),
        ("GET", "/v1/recommendations?user=u0002&k=many", None, 422, "invalid"),
        ("GET", "/v1/recommendations?user=u0002&K=3", None, 422, "invalid"),
        ("GET", "/v1/about?x=1", None, 422, "invalid"),
        ("GET", "/v1/history?user=nobody", None, 404, "unknown_user"),
        ("GET", "/v1/similar?item=nothing", None, 404, "unknown_item"),
        ("GET", "/v1/recommendations?user=u0002&where=genre", None, 422, "invalid"),
        ("GET", "/v1/recommendations?user=u0002&where=genre%3Dwar", None, 409, "wrong_where"),
        ("GET", "/v1/similar?item=i0002&where=title%3E5", None, 409, "wrong_where"),
        ("POST", "/v1/recommendations/history", '{"history": [], "where": ["year>"]}', 422, "invalid"),
        ("GET", "/v1/scores?user=u0002", None, 422, "invalid"),
        ("GET", "/v1/scores?user=nobody&item=i0002", None, 404, "unknown_user"),
        ("GET", "/v1/scores?user=u0002&item=i0002&item=nothing", None, 404, "unknown_item"),
        ("GET", "/v1/why?user=u0002&item=nothing", None, 404, "unknown_item"),
        ("GET", "/v1/nowhere", None, 404, "not_found"),
        ("GET", "/static/../cli.py", None, 404, "not_found"),
        ("GET", "/static/nothing.js", None, 404, "not_found"),
        ("PUT", "/v1/about", None, 405, "method_not_allowed"),
        ("POST", "/v1/recommendations", '{"users": []}', 422, "invalid"),
        ("POST", "/v1/recommendations", '{"users": ["a"], "kk": 3}', 422, "invalid"),
        ("POST", "/v1/recommendations", '{"users": [1.5]}', 422, "invalid"),
        ("POST", "/v1/recommendations", '{"users": [true]}', 422, "invalid"),
        ("POST", "/v1/recommendations", '{"users": ', 422, "invalid"),
        ("POST", "/v1/recommendations", '{"users": ["' + 101 * 'a", "' + '"]}', 422, "invalid"),
        ("POST", "/v1/recommendations/history", '{"history": ["\\ud800"]}', 422, "invalid"),
        ("POST", "/v1/recommendations/history", '{"history": ["' + "a" * 2**20 + '"]}', 413, "too_large"),
    ],
)
def test_errors_are_for_programs_and_for_people(client, method, path, body, status, code):
    answer = client.request(method, path, content=body, headers=JSON if body else None)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code
    assert answer.json()["error"]["message"]
    assert "Traceback" not in answer.text
    assert "site-packages" not in answer.text


def test_health_and_figures(client):
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}
    figures = client.get("/metrics").text
    assert 'accord_requests_total{route="/healthz",status="200"}' in figures
    assert 'accord_request_seconds_bucket{le="0.005",route="/healthz"}' in figures
    assert "u0002" not in figures


def test_pages_carry_a_strict_policy(client):
    for path in ("/", "/docs", "/static/page.js", "/v1/about", "/nowhere"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
    assert SCRIPT not in client.get("/").text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{", "the body is not JSON."),
        ("[]", "the body: a valid dictionary or object to extract fields from."),
        ('{"users": [1.5]}', "users.0: give an id, as text of at most 1000 characters or as a whole number."),
        (
            '{"users": ["a"], "exclude": [null]}',
            "exclude.0: give an id, as text of at most 1000 characters or as a whole number.",
        ),
        ('{"users": ["a"], "kk": 3}', "the body has a field 'kk', which does not exist."),
        ('{"users": ["a"], "k": 0}', "k: greater than or equal to 1."),
        ('{"users": ["a"], "k": "x"}', "k: a valid integer."),
        ("{}", "users: field required."),
    ],
)
def test_what_is_wrong_is_said_without_what_checks_it(client, body, message):
    answer = client.post("/v1/recommendations", content=body, headers=JSON)
    assert answer.status_code == 422
    assert answer.json()["error"]["message"] == message


def test_a_parameter_is_named_as_it_was_sent(client):
    answer = client.get("/v1/recommendations?user=u0002&k=many")
    assert answer.json()["error"]["message"].startswith("k: a valid integer")


def test_what_is_no_number_is_null_in_an_answer():
    content = {"a": float("nan"), "b": [1.5, float("inf")], "c": {"d": (float("-inf"), "NaN")}}
    assert as_json(content).body == b'{"a":null,"b":[1.5,null],"c":{"d":[null,"NaN"]}}'
