"""What `make quick` runs: everything but what these rules leave out. A new test is in unless a rule says otherwise."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

TESTS = Path(__file__).parent

# Folders whose tests need a trained run, a page, a server or the whole command line.
FOLDERS = {"auditing", "cli", "comparing", "docs", "lab", "report", "serve", "stress"}

# Modules with which a test file starts browsers, servers or other processes.
STARTERS = {
    "browser",
    "buckets",
    "documents",
    "multiprocessing",
    "postgres",
    "ray",
    "serving",
    "started",
}

# Fixtures that read the paper's datasets.
FIXTURES = {"shared_data"}

# Single tests of a second or more elsewhere. `make quick` ends with those that are missing here.
NAMES = {
    "test_a_family_that_fails_is_left_out",
    "test_kernels_that_were_compiled_before_do_not_mix",
    "test_our_source_runs_nothing_that_it_reads",
    "test_the_same_search_gives_the_same_result_and_says_what_it_does",
    "test_the_share_of_a_known_mixture",
    "test_what_is_labelled_as_noise_judges_no_member",
    "test_a_folded_in_history_ranks_like_the_user_it_was_taken_from",
    "test_a_long_sum_is_the_same_with_any_number_of_threads",
    "test_cells_are_uniform_over_the_unseen_cells_of_the_batch",
    "test_a_few_labels_make_it_sharp_and_calibrated",
    "test_every_row_of_a_frame_gets_a_probability_under_its_own_ids",
    "test_histories_fade_where_that_pays",
    "test_it_becomes_a_consensus_that_can_be_given_again",
    "test_labels_join_the_vote",
    "test_labels_that_are_not_a_fair_sample_do_not_harm",
    "test_labels_that_are_too_few_change_nothing_and_that_is_said",
    "test_large_data_is_small",
    "test_memory_is_that_of_the_rows",
    "test_the_chosen_run_recommends",
    "test_the_same_bits_every_time",
    "test_the_example_of_a_public_name_is_true",
    "test_training_on_a_store_is_training_on_the_log",
}

# Of a test with more sets of parameters than this, so many are run, evenly spread over all.
MOST = 5

T = TypeVar("T")


def skips_file(path: Path) -> bool:
    """Whether a file or folder of tests is left out unread: importing what it needs takes seconds."""
    parts = path.relative_to(TESTS).parts
    return bool(parts) and (parts[0] in FOLDERS or (path.suffix == ".py" and bool(imported(path) & STARTERS)))


def imported(path: Path) -> set[str]:
    """The first names of the modules that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def skips_test(name: str, fixtures: set[str]) -> bool:
    """By the name of a test without its parameters, and all fixtures that it uses."""
    return name in NAMES or bool(fixtures & FIXTURES)


def some(cases: Sequence[T]) -> list[T]:
    """At most `MOST` of them, evenly spread, the first and the last among them."""
    if len(cases) <= MOST:
        return list(cases)
    return [cases[round(place * (len(cases) - 1) / (MOST - 1))] for place in range(MOST)]
