"""Who votes in a consensus, on the page and on the command line."""

from __future__ import annotations

import numpy as np
import pytest

import accord
from accord.cli.display import members_table
from accord.report.page import Section
from accord.report.runs import Runs
from accord.report.sections import (
    EXAMPLES,
    member_columns,
    member_rows,
    members,
    recommendations,
)


@pytest.fixture(scope="module")
def consensus(data):
    chosen = [{"model": "ease", "options": {"model.l2": 50.0}}, {"model": "item-knn"}, {"model": "popularity"}]
    return accord.fit(data, "consensus", options={"model.members": chosen})


def test_a_row_says_what_was_tried_and_what_it_reached():
    tried = [
        {"model": "gmf", "method": "deca-p", "options": {"train.lr": 0.01}, "seeds": 4, "weight": 0.25},
        {"model": "ials", "valid_ndcg@20": 0.5, "test_ndcg@20": 0.25},
    ]
    assert member_rows(tried) == [
        ("gmf + deca-p x 4", "0.25", None, None, "defaults"),
        ("ials", "", 0.5, 0.25, "defaults"),
    ]


def test_the_page_and_the_command_line_show_the_same_members(consensus, capsys):
    section = Section("Members and votes")
    members(Runs([("runs/x", consensus)]), section)
    tables = [block["table"] for block in section.blocks if block["kind"] == "table"]
    shown = {row[0]: row for table in tables for row in table.rows}
    assert shown["ease"][4] == "l2=50.0"
    voting = [entry["model"] for entry in consensus.metrics["members"] if "weight" in entry]
    assert [row[0] for row in tables[0].rows] == voting  # the others are folded away
    members_table(consensus.metrics)
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]} == set(shown)


def test_columns_of_other_users_or_fits_say_so():
    both = {"groups": {"warm": {"users": 9}, "cold": {"users": 0}}}
    assert member_columns(both)[2:4] == ("valid ndcg@20", "test ndcg@20")
    both["groups"]["cold"]["users"] = 1
    assert member_columns(both)[2:4] == ("valid ndcg@20, warm users", "test ndcg@20, all users")
    assert member_columns({**both, "before_validation": {}})[3] == "test ndcg@20, all users, fitted on train"


def test_how_much_was_tried_is_said_first(consensus, capsys):
    members_table({**consensus.metrics, "search": {"tried": [{}] * 5}})
    assert capsys.readouterr().err.startswith("tried 5 configurations of 3 families; the best of each:")


def test_a_run_of_one_model_has_no_such_section(trained, data, consensus):
    section = Section("Members and votes")
    members(Runs([trained["ease-normal"], ("runs/x", consensus)]), section)
    titles = [block["table"].title for block in section.blocks if block["kind"] == "table"]
    assert titles
    assert all("consensus" in title for title in titles)


def test_a_member_is_called_what_it_is():
    told = {"model": "mf", "method": "normal", "seeds": 4, "by_p_real": True, "valid_ndcg@20": 0.5}
    clean = {"model": "item-knn", "options": {"model.clean": True}, "weight": 0.25}
    assert member_rows([told, clean]) == [
        ("mf + normal x 4 (by labels)", "", 0.5, None, "defaults"),
        ("item-knn (by labels)", "0.25", None, None, "clean=True"),
    ]


def test_the_section_counts_what_is_recommended(trained):
    runs = Runs([trained["ease-normal"]])
    section = Section("Recommendations")
    recommendations(runs, section)
    (most,) = (block["table"] for block in section.blocks if block["kind"] == "table")
    run = trained["ease-normal"][1]
    seen, counts = run.train.popularity(), runs.runs[0].recommended
    said = [block["text"] for block in section.blocks if block["kind"] == "note"]
    assert [text.partition(",")[0] for text in said] == ["ease", "popularity"]
    assert f"coverage {(counts > 0).mean():.1%}, " in said[0]
    top = int(np.argmax(counts))
    item, title, lists, had, interactions = most.rows[0]
    assert item == run.items.ids[top].as_py()
    assert title.endswith(f" {top}")
    users = int((run.train.counts > 0).sum())
    assert (lists, had, interactions) == (f"{counts[top] / users:.1%}", f"{seen[top] / users:.1%}", f"{seen[top]:,}")
    assert len(most.rows) == EXAMPLES


def test_what_auto_is_on_a_log_is_said_beside_ease_tuned_alike(consensus, capsys):
    entries = [
        {"model": "ease", "options": {"model.l2": 37.0}, "weight": 1.0, "valid_ndcg@20": 0.3, "test_ndcg@20": 0.25}
    ]
    metrics = {**consensus.metrics, "search": {"tried": [{}]}, "members": entries}
    members_table(metrics)
    assert "auto chose ease (l2=37.0) alone; ease, tuned the same way, has ndcg@20 0.2500 on the test" in (
        capsys.readouterr().err.replace("\n", " ")
    )
    voting = [{"model": name, "weight": 0.5, "test_ndcg@20": 0.2} for name in ("ials", "item-knn")]
    sparse = {"model": "sparse-ease", "valid_ndcg@20": 0.3, "test_ndcg@20": 0.22}
    members_table({**metrics, "members": [*voting, sparse]})
    assert (
        "auto chose a vote of 2 models; sparse-ease, tuned the same way, has ndcg@20 0.2200" in capsys.readouterr().err
    )
