"""Labels by rule, column, file, frame and event; what is counted and what is said of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import accord
from accord.data.labels import described, has_label, summary
from accord.data.store.prepare import prepare
from accord.errors import InputError

USERS, ITEMS = 20, 15


def log(**columns):
    """Every user with ten items, and what else is given."""
    users = np.repeat(np.arange(USERS), 10)
    items = np.concatenate([(u + np.arange(10)) % ITEMS for u in range(USERS)])
    return pa.table({"user": users, "item": items} | columns)


def ratings(empty=0.5):
    rng = np.random.default_rng(0)
    return pa.array(rng.integers(1, 6, 200).astype(float), mask=rng.random(200) < empty)


def labels_of(data):
    """label by (user, item) over all parts; those without one are left out."""
    found = {}
    for part in (data.train, data.valid, data.test if data.test_noisy is None else data.test_noisy):
        for row in part.table.to_pylist():
            if row["label"] is not None:
                found[row["user"], row["item"]] = row["label"]
    return found


def expected(table, name, said):
    rows = [row for row in table.to_pylist() if row[name] is not None]
    return {(row["user"], row["item"]): said(row[name]) for row in rows}


def test_a_rule_on_a_column_that_most_rows_leave_empty():
    table = log(rating=ratings(0.8), dwell=np.arange(200.0))
    wanted = expected(table, "rating", lambda rating: float(rating >= 4))
    data = accord.load(table, labels="rating>=4", columns=accord.Columns(value="dwell"))
    assert labels_of(data) == wanted
    assert any(note == f"labels 'rating>=4': {len(wanted)} interactions have a label." for note in data.notes)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_file_gives_what_a_frame_gives(tmp_path, suffix):
    table = log(rating=ratings())
    path = tmp_path / f"log.{suffix}"
    pyarrow.csv.write_csv(table, path) if suffix == "csv" else pa.parquet.write_table(table, path)
    wanted = labels_of(accord.load(table, labels="rating>=4"))
    assert labels_of(accord.load(path, labels="rating>=4")) == wanted
    assert labels_of(accord.load(path, labels="value>=4")) == wanted


@pytest.mark.parametrize("written", [[1, 0, None], [1.0, 0.25, None], [True, False, None], ["true", "FALSE", ""]])
def test_a_column_of_labels(written, tmp_path):
    values = [written[k % 3] for k in range(200)]
    table = log(liked=values)
    meaning = {True: 1.0, False: 0.0, "true": 1.0, "FALSE": 0.0}
    wanted = {
        (row["user"], row["item"]): float(meaning.get(row["liked"], row["liked"]))
        for row in table.to_pylist()
        if row["liked"] not in (None, "")
    }
    assert labels_of(accord.load(table, labels="liked")) == wanted
    pyarrow.csv.write_csv(table, tmp_path / "log.csv")
    assert labels_of(accord.load(tmp_path / "log.csv", labels="liked")) == wanted


def test_a_frame_has_its_own_column():
    table = log(rating=np.full(200, 3.0), label=pa.array(np.arange(200) % 2, mask=np.arange(200) % 3 > 0))
    assert labels_of(accord.load(table)) == expected(table, "label", float)
    stars = log(label=np.arange(200) % 5)  # no labels: as before, they are values
    assert accord.load(stars).train.names == ["user", "item", "value"]


def test_a_file_beside_the_log_by_its_own_ids(tmp_path):
    beside = tmp_path / "labels.csv"
    beside.write_text("item,user,label\n0,0,1\n3,2,0\n3,2,1\n999,0,1\n1,0,\n")
    data = accord.load(log(), labels=str(beside))
    assert labels_of(data) == {(0, 0): 1.0, (2, 3): 0.5}
    assert any("1 pairs have contradicting labels" in note for note in data.notes)
    beside.write_text("user,item,label\n0.0,0,1\n,1,0\nnan,2,1\n")  # as spreadsheets write whole numbers, and gaps
    assert labels_of(accord.load(log(), labels=beside)) == {(0, 0): 1.0}
    assert labels_of(accord.load(log(), labels=pa.table({"user": [0], "item": [0], "label": [0.4]}))) == {(0, 0): 0.4}


def test_pairs_that_the_log_does_not_have_are_refused_or_liked():
    beside = pa.table({"user": [0, 0, 0, 99], "item": [0, 11, 12, 0], "label": [1.0, 0.0, 0.8, 0.0]})
    data = accord.load(log(), labels=beside)
    rows = [(row["user"], row["item"], row["label"]) for row in data.outside.table.to_pylist()]
    assert rows == [(0, 11, 0.0), (0, 12, 0.8)]
    assert labels_of(data) == {(0, 0): 1.0}
    assert any(
        "2 pairs are not in the log: 1 refused, which are never recommended, and 1 liked" in n for n in data.notes
    )
    assert any("1 are of users or items that the log does not have" in note for note in data.notes)
    only = accord.load(log(), labels=beside.slice(1, 2))  # of the log itself nothing is known
    assert "label" not in only.train.names
    assert only.everything().outside is only.outside
    assert described(summary(only)) == [
        "2 pairs outside the log have a label: 1 refused, which are never recommended, and 1 liked."
    ]
    even = accord.load(log(), labels=pa.table({"user": [0], "item": [11], "label": [0.5]}))
    assert summary(even) == {"refused": 0, "liked": 1}
    assert any("0 refused, which are never recommended, and 1 liked" in note for note in even.notes)
    rated = log(rating=ratings(0.0))
    assert accord.load(rated, labels="rating>=4").outside is None


def test_a_test_goes_without_what_is_labelled_as_noise():
    table = log(rating=ratings())
    whole, data = accord.load(table), accord.load(table, labels="rating>=4")
    noise = {pair for pair, label in labels_of(data).items() if label == 0}
    tested = {(row["user"], row["item"]) for row in whole.test.table.to_pylist()}
    assert noise & tested
    assert {(row["user"], row["item"]) for row in data.test.table.to_pylist()} == tested - noise
    said = f"the test leaves out {len(noise & tested)} of {len(tested)} interactions, which are labelled as noise."
    assert said in data.notes
    by_rule = accord.load(table, labels="rating>=4", clean="rating>=3")
    assert len(by_rule.test) == len(accord.load(table, clean="rating>=3").test)
    assert not any("leaves out" in note for note in by_rule.notes)
    torn = accord.load(table, labels="rating>=3; rating<=3")  # of which a rating of 3 is both, and no noise
    assert labels_of(torn) == expected(table, "rating", lambda rating: (np.sign(rating - 3) + 1) / 2)
    noise = {pair for pair, label in labels_of(torn).items() if label == 0}
    assert {(row["user"], row["item"]) for row in torn.test.table.to_pylist()} == tested - noise


def test_kinds_of_events_and_what_contradicts():
    table = pa.concat_tables([log(event=["view"] * 200), log(event=["buy", "cart", "view", "hide"] * 50)])
    data = accord.load(table, events="view=?,cart=0.7,buy=1,hide=0")
    assert set(labels_of(data).values()) == {1.0, 0.7, 0.0}
    assert not any("contradicting" in note for note in data.notes)
    again = pa.concat_tables([table, log(event=["buy"] * 200)])
    data = accord.load(again, events="view=?,cart=0.7,buy=1,hide=0")
    assert set(labels_of(data).values()) == {1.0, 0.5}
    assert any("50 pairs have contradicting labels" in note for note in data.notes)


def test_a_split_folder_and_a_store_take_rules_on_their_values(tmp_path):
    table = log(rating=ratings(0.0))
    pyarrow.csv.write_csv(table, tmp_path / "log.csv")
    prepare(tmp_path / "log.csv", tmp_path / "store")
    wanted = labels_of(accord.load(table, labels="rating>=4"))
    assert labels_of(accord.load(tmp_path / "store", labels="value>=4")) == wanted
    data = accord.load("demo", labels="value>=1")
    assert np.array_equal(data.train.column("label"), data.train.column("value"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labels": "stars>=4"}, "has no column 'stars', which the labels name"),
        ({"labels": "missing"}, "has no column 'missing', which the labels name"),
        ({"labels": "rating"}, r"not a label: labels go from 0 \(noise\) to 1 \(real\); give a rule .*'rating>=4'\.$"),
        ({"labels": "word"}, "column 'word' has 'x' in row 1, .* or give other labels\\.$"),
        ({"labels": "rating>9; rating<0"}, "no interaction of the data gets a label; check the rule or file"),
        ({"labels": pa.table({"user": [77], "item": [88], "label": [1]})}, "give the same ids"),
        ({"labels": pa.table({"user": [0], "item": [0], "why": [1]})}, "no column 'label'"),
        ({"events": "view=?"}, "before a colon"),
    ],
)
def test_what_cannot_be_is_one_sentence(given, message):
    with pytest.raises(InputError, match=message):
        accord.load(log(rating=ratings(0.0), word=["x"] * 200), **given)


def test_a_log_that_looks_labelled_says_so(tmp_path):
    table = log(value=np.arange(200) % 4 // 3)
    notes = accord.load(table).notes
    assert any("is 0 in 7" in note and note.endswith("give labels='value'.") for note in notes)
    assert not any("as labels are" in note for note in accord.load(table, labels="value").notes)
    pyarrow.csv.write_csv(log(rating=ratings(0.0), is_liked=np.arange(200) % 2), tmp_path / "log.csv")
    likes = next(note for note in accord.load(tmp_path / "log.csv").notes if "'is_liked' looks like a label" in note)
    rule = "--labels 'is_liked>0; is_liked<0'"
    assert likes.for_command.endswith(f"if it is one, give --labels is_liked, or {rule} where it has numbers below 0.")
    assert not any("labels" in note for note in accord.load(log(rating=ratings(0.0))).notes)


@pytest.mark.parametrize(
    ("given", "unused"),
    [
        ({}, "not used: 'event', 'stars_given', 'other'"),
        ({"events": "view=?,buy=1"}, "not used: 'stars_given', 'other'"),
        ({"events": "other:view=?,buy=1"}, "not used: 'event', 'stars_given'"),
        ({"labels": "stars_given>=4"}, "not used: 'event', 'other'"),
    ],
)
def test_columns_that_labels_are_read_from_are_used(given, unused):
    kinds = ["view", "buy"] * 100
    table = log(event=kinds, stars_given=ratings(0.0), other=kinds)
    assert any(f"; {unused}." in note for note in accord.load(table, **given).notes)
    if "labels" in given:
        assert any(f"; {unused}." in note for note in accord.posterior(table, **given).notes)


def test_what_is_said_of_labels():
    liked = np.full(200, np.nan)  # every user has ten rows, in order
    liked[:12], liked[12:15], liked[190:195] = 1, 0.5, 0
    data = accord.load(log(liked=pa.array(liked, from_pandas=True)), labels="liked", ratios=(1, 0, 0))
    items = (np.repeat(np.arange(USERS), 10) + np.tile(np.arange(10), USERS)) % ITEMS
    given = ~np.isnan(liked)
    assert summary(data) == {
        **{"labels": 20, "interactions": 200, "real": 12, "noise": 5, "between": 3},
        **{"users": 3, "items": len(set(items[given])), "of_users": USERS, "of_items": ITEMS},
    }
    assert described(summary(data))[0] == (
        "20 of 200 training interactions have a label: 12 real, 5 noise, 3 between; they are of 3 of 20 users and "
        f"{len(set(items[given]))} of 15 items."
    )
    assert summary(accord.load(log())) == {}
    liked[190:195] = np.nan
    halves = accord.load(log(liked=pa.array(liked, from_pandas=True)), labels="liked", ratios=(1, 0, 0))
    assert not any("says noise" in note for note in (*halves.notes, *described(summary(halves)))), "a half is not real"


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        ([0, 1], True), ([0.25, None], True), ([True, False], True),
        (["0", "1"], False), ([-1, 1], False), ([0, 2], False), (pa.nulls(2, pa.float64()), False),
    ],
)  # fmt: skip
def test_a_column_called_label_has_labels_if_they_can_be(column, labels):
    assert has_label(pa.table({"label": column})) == labels
    assert not has_label(pa.table({"labels": column}))


def coded(code, share=0.4, top=10):
    """Ratings from 1 to `top`, and a code in a share of the rows."""
    rng = np.random.default_rng(0)
    return log(rating=np.where(rng.random(200) < share, code, rng.integers(1, top + 1, 200)).astype(float))


@pytest.mark.parametrize(
    ("code", "rule", "unrated", "rated"),
    [
        (0, "rating>=8; rating<=5", "rating>=8; rating<=5 and rating>0", "rating>=8; rating<=5 and rating>=0"),
        (-1, "rating>=8", "rating>=8; rating<8 and rating>-1", "rating>=8; rating<8 and rating>=-1"),
        (99, "rating>=8; rating<=5", "rating>=8 and rating<99; rating<=5", "rating>=8 and rating<=99; rating<=5"),
        (0, "rating<=3", "rating<=3 and rating>0; rating>3", "rating<=3 and rating>=0; rating>3"),
    ],
)
def test_a_code_for_not_rated_is_asked_about(code, rule, unrated, rated, tmp_path):
    table = coded(code)
    pyarrow.csv.write_csv(table, tmp_path / "log.csv")
    rows = int((table["rating"].to_numpy() == code).sum())
    for source in (table, tmp_path / "log.csv"):
        with pytest.raises(InputError) as caught:
            accord.load(source, labels=rule)
        said = caught.value.for_command
        assert f"make rating {code} {'real' if rule == 'rating<=3' or code == 99 else 'noise'}, in {rows} rows " in said
        assert f"rows ({rows / 200:.0%}); if" in said
        assert (
            f"if {code} means not rated, give --labels '{unrated}'; if it is a rating, give --labels '{rated}'" in said
        )
    for answer, is_rating in ((unrated, False), (rated, True)):
        labels = labels_of(accord.load(table, labels=answer))
        codes = [row for row in table.to_pylist() if row["rating"] == code]
        assert all(((row["user"], row["item"]) in labels) == is_rating for row in codes)


def test_a_code_in_a_rule_on_several_columns():
    table = coded(0).append_column("scrolled", [np.arange(200.0)])
    with pytest.raises(
        InputError, match=r"leave the column empty there; if it is a rating, add 'and rating>=0' to the"
    ):
        accord.load(table, labels="rating>=8 and scrolled>3")
    accord.load(table, labels="rating>=8 and rating>=0 and scrolled>3")


@pytest.mark.parametrize(
    ("table", "rule"),
    [
        (coded(0), "rating>0"),  # which says itself what becomes of 0
        (coded(0), "rating>=1"),
        (coded(0, share=0.004), "rating>=8"),
        (coded(0, top=150), "rating>=100"),  # seconds or plays
        (coded(-1, top=1), "rating>=1"),  # thumbs
        (coded(9), "rating>=8"),
        (coded(8), "rating>=8"),
    ],
)
def test_values_that_are_no_codes(table, rule):
    accord.load(table, labels=rule)


@pytest.mark.parametrize("table", [coded(-1, top=1), coded(-3, share=0.05)], ids=["thumbs", "quantities"])
def test_values_below_0_are_no_positives_in_silence(table):
    (note,) = (note for note in accord.load(table).notes if "below 0" in note)
    assert "of the training rows, which count as interactions like all others" in note
    assert note.for_command.endswith("give --labels 'rating>=0'.")
    assert not any("below 0" in note for note in accord.load(table, labels="rating>=0").notes)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ("view=?,cart=0.7,buy=1", "none says noise. Real ones are compared"),
        ("view=0.6,cart=0.7,buy=1", "Every interaction has one, so nothing can be learned from them"),
        ("view=0,cart=?,buy=1", None),
    ],
)
def test_labels_of_real_ones_alone_are_warned_of(events, said):
    kinds = np.array(["view", "view", "cart", "buy"] * 50)
    data = accord.load(log(event=kinds), events=events)
    findings = " ".join([*data.notes, *described(summary(data))])
    assert findings.count("says noise") == (said is not None), "once, before the search"
    assert said is None or said in findings


def test_values_that_are_unknown_and_what_is_noticed_of_them():
    table = coded(-1)
    wanted = expected(table, "rating", lambda rating: float(rating >= 7))
    wanted = {pair: label for pair, label in wanted.items() if pair not in expected_codes(table, -1)}
    data = accord.load(table, labels="rating>=7; unknown -1")
    assert labels_of(data) == wanted
    noted = [str(note) for note in accord.load(table).notes if "not rated" in str(note)]
    assert len(noted) == 1
    assert "column 'rating' is -1 in" in noted[0]
    assert "labels='rating>=7; unknown -1'" in noted[0]
    assert any("'rating>=4; unknown -1'" in str(note) for note in accord.load(coded(-1, top=5)).notes), "of five stars"
    with pytest.raises(InputError, match="unknown -9: no row has this rating"):
        accord.load(table, labels="rating>=7; unknown -9")
    with pytest.raises(InputError, match="write a rule like"):
        accord.load(table, labels="rating>=7; unknown x")
    thumbs = log(rating=np.arange(200) % 3 - 1.0)
    assert any("labels='rating>0; rating<0'" in str(note) for note in accord.load(thumbs).notes)
    with pytest.raises(InputError, match="give a rule instead, like 'rating>0'"):
        accord.load(thumbs, labels="rating")


def expected_codes(table, code):
    return {(row["user"], row["item"]) for row in table.to_pylist() if row["rating"] == code}


def test_labels_of_several_sources_and_of_real_ones_alone():
    table, beside = log(rating=ratings(0.0)), pa.table({"user": [0, 1], "item": [12, 1], "label": [0.0, 1.0]})
    data = accord.load(table, labels=["rating>=4", beside])
    assert data.outside.table.to_pylist() == [{"user": 0, "item": 12, "label": 0.0}]
    assert len(labels_of(data)) == 200
    only_real = accord.load(log(event=["view", "buy"] * 100), events="view=?,buy=1")
    assert any("none says noise" in note for note in only_real.notes)
    assert not any("none says noise" in note for note in data.notes)
    liked = accord.load(table, labels=pa.table({"user": [0], "item": [12], "label": [1.0]}))
    assert any("how many of those are real remains unknown" in note for note in liked.notes), "of a pair outside"
    refused = accord.load(table, labels=pa.table({"user": [0], "item": [12], "label": [0.0]}))
    assert not any("none says real" in note for note in refused.notes), "lists follow them, whatever is learned"
    noise = accord.load(table, labels="rating>=9").notes
    assert any(note.startswith("labels 'rating>=9': none says real, so nothing can be learned") for note in noise)
