"""What is known of the changes that mutmut makes: it is of files that exist, and nothing is left without a reason."""

from __future__ import annotations

import json

import mutation


def test_modules_and_their_tests_are_there():
    for files, tests in mutation.MODULES.values():
        assert all((mutation.ROOT / mutation.source_of(file)).exists() for file in files)
        assert all((mutation.ROOT / "tests" / test).exists() for test in tests)


def test_every_change_that_was_made_is_noticed_or_explained():
    result = json.loads(mutation.RESULT.read_text(encoding="utf-8"))
    record, known = result["record"], mutation.reasons()
    assert list(record) == [name for name in mutation.MODULES if name in record]
    missing = [name for name in mutation.MODULES if name not in record]
    assert not missing or f"Not run yet: {', '.join(missing)}." in result["how"]
    for name, own in record.items():
        assert len(own["survived"]) == own["mutants"] - own["killed"]
        open_ = [change for change in own["survived"] if mutation.why(name, change, known) is None]
        assert not open_, f"{name}: {open_}"
        all_of_it = min(own["made"], mutation.DRAWN) if name in mutation.SLOW else own["made"]
        assert own["mutants"] == all_of_it, f"{name}: some changes were not tried"
    assert result == json.loads(json.dumps(mutation.found(record, known))), "run `make mutation MUTATION=--explain`"


def test_every_reason_is_needed():
    record = json.loads(mutation.RESULT.read_text(encoding="utf-8"))["record"]
    for one in mutation.reasons():
        changes = [(name, change) for name, own in record.items() for change in own["survived"]]
        assert any(mutation.why(name, change, [one]) for name, change in changes), one


def test_a_reason_fits_by_module_function_and_line():
    change = {"function": "mean", "old": "return a + b", "new": "return a - b"}
    reason = {"module": "metrics", "function": "mean", "old": r"a \+", "new": "a -", "why": "b is 0"}
    assert mutation.why("metrics", change, [reason]) == "b is 0"
    for other in ({"module": "guard"}, {"function": "sum"}, {"old": "c"}, {"new": r"a \*"}):
        assert mutation.why("metrics", change, [reason | other]) is None
    assert mutation.why("guard", change, [{"old": "a", "why": "anywhere"}]) == "anywhere"


def test_of_a_module_with_slow_tests_the_same_changes_are_drawn_every_time():
    made = [f"change {number}" for number in range(100)]
    some = mutation.drawn("fitting", made)
    assert some == mutation.drawn("fitting", made) != mutation.drawn("fitting", made, mutation.SEED + 1)
    assert (len(set(some)), set(some) < set(made)) == (mutation.DRAWN, True)
    assert mutation.drawn("fitting", made[:5]) == made[:5]
    assert mutation.drawn("guard", made) == made


def test_what_is_shown_of_a_module():
    change = {"function": "f", "old": "a + b", "new": "a - b"}
    record = {
        "guard": {
            "tests": ["tests/serve/test_guard.py"],
            "made": 50,
            "mutants": 40,
            "killed": 39,
            "survived": [change],
            "date": "2026-01-02",
            "commit": "0123456789",
            "again": {"mutants": 40, "killed": 37},
        }
    }
    counts, left = mutation.found(record, [])["tables"]
    assert counts["rows"] == [("guard", "test_guard.py", 50, 40, 39, "97.5 %", 0, "37 of 40", "2026-01-02, `0123456`")]
    assert left["rows"] == [("guard", "not explained yet", 1, "`a + b` → `a - b`")]
    counts, left = mutation.found(record, [{"why": "b is 0"}])["tables"]
    assert counts["rows"][0][-3] == 1
    assert left["rows"][0][1] == "b is 0"
