"""A judge: a program that says of interactions whether they are real, asked where it tells most, and priced.

It reads a line of JSON for each pair and writes a line for each: a number from 0 (noise) to 1 (real), or nothing where
it does not know. Some of the pairs have a label by people: by these its errors are known, and what its answers mean."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.csr import Bools, Csr, Floats, Rows
from accord.data.interactions import Dataset
from accord.errors import Argument, InputError, shown
from accord.posteriors.estimate import estimate, next_labels, uncertainty

CHECKED = 0.2  # share of the judgements, at most, that are of pairs with a label by people
HISTORY = 10  # other items of the user that a judge is told
DRAWS, SEED = 4_000, 0


@dataclass(frozen=True)
class Judged:
    """What a judge said: a table of user, item and label, and what that is worth in sentences."""

    table: pa.Table
    notes: tuple[str, ...]


def judge(data: Dataset, command: str, judgements: int, seconds: float) -> Judged:
    """Ask for that many labels of training interactions, of which some are known. Where labels by people tell what the
    answers mean, a label is the chance that an interaction with such an answer is real."""
    if judgements < 1:
        raise InputError(Argument("judgements", judgements), ": give at least 1.")
    train = data.training_csr()
    label = train.columns.get("label", np.full(len(train.items), np.nan))
    known = np.flatnonzero((label < 0.25) | (label > 0.75))
    checked = np.random.default_rng(SEED).permutation(known)[: round(CHECKED * judgements)]
    believed = estimate(train, label, data.labelled_outside, info=data.item_info).take(np.arange(len(label)))
    unsure = np.where(np.isnan(label), uncertainty(believed.p_real, believed.used), np.nan)
    chosen = next_labels(unsure, train.users, train.items, judgements - len(checked))
    if not len(chosen):
        raise InputError("every interaction has a label, so there is nothing to ask a judge.")
    answers = ask(command, described(data, train, np.append(checked, chosen)), seconds)
    said, new = answers[: len(checked)], answers[len(checked) :]
    price, notes = _price(said, label[checked] > 0.5, float(np.nanmean(label)) if len(known) else 0.5)
    if price is not None:
        new = np.where(np.isnan(new), np.nan, np.where(new > 0.5, *price))
    some = ~np.isnan(new)
    if not some.any():
        raise InputError(Argument("judge", command), " answered none of the pairs; nothing is written.")
    first = f"it judged the {some.sum():,} most useful interactions without a label: {(new > 0.5).sum():,} are real."
    rows = chosen[some]
    columns = {"user": data.users.take(train.users[rows]), "item": data.items.take(train.items[rows])}
    return Judged(pa.table({**columns, "label": new[some].round(4)}), (first, *notes))


def described(data: Dataset, train: Csr, rows: Rows) -> list[dict[str, Any]]:
    """Interactions as a judge reads them: user, item, title, and other items of the user with their titles."""
    ids = data.items.ids.to_pylist()
    titles = [None] * len(ids) if data.item_info is None else data.item_info.column("title").to_pylist()
    users = data.users.take(train.users[rows]).to_pylist()
    histories = (train.items[slice(*train.ptr[user : user + 2])] for user in train.users[rows])

    def named(item: int) -> dict[str, Any]:
        return {"item": ids[item], "title": titles[item]}

    return [
        {"user": user, **named(int(item)), "history": [named(int(other)) for other in others[others != item][:HISTORY]]}
        for user, item, others in zip(users, train.items[rows], histories, strict=True)
    ]


def ask(command: str, pairs: list[dict[str, Any]], seconds: float) -> Floats:
    """The answers of a program to these pairs: from 0 to 1, NaN where it does not know."""
    lines = "".join(json.dumps(pair, ensure_ascii=False) + "\n" for pair in pairs)
    problem = Argument("judge", command)
    try:
        words = shlex.split(command)
        done = subprocess.run(words, input=lines.encode(), capture_output=True, timeout=seconds, check=False)
    except (OSError, ValueError, IndexError) as error:
        why = error.strerror.lower() if isinstance(error, OSError) and error.strerror else "it names no program"
        raise InputError(problem, f" cannot be started ({why}); give a program and its arguments.") from None
    except subprocess.TimeoutExpired:
        raise InputError(
            problem, f" gave no answers to {len(pairs):,} pairs within {seconds:g} seconds; ask for fewer, or give ",
            Argument("seconds", 2 * seconds), ".",
        ) from None  # fmt: skip
    said = done.stdout.decode(errors="replace").split("\n")
    said = said[:-1] if said and not said[-1].strip() else said
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:200]
        raise InputError(
            problem, f" ended with code {done.returncode} after {len(said):,} of {len(pairs):,} answers"
            f"{': ' + last if last else ''}; correct it.",
        )  # fmt: skip
    if len(said) != len(pairs):
        raise InputError(
            problem, f" gave {len(said):,} answers to {len(pairs):,} pairs; it has to write one line for each."
        )
    answers = np.full(len(said), np.nan)
    for number, answer in enumerate(said):
        try:
            if (text := answer.strip().lower()) not in ("", "null"):
                answers[number] = float({"true": "1", "false": "0"}.get(text, text))
        except ValueError:
            answers[number] = -1
        if answers[number] < 0 or answers[number] > 1:
            raise InputError(
                problem, f" answers {shown(answer.strip()[:100])} in line {number + 1:,}, and a label is a number from "
                "0 (noise) to 1 (real), or nothing where it is unknown.",
            )  # fmt: skip
    return answers


def _price(said: Floats, real: Bools, share: float) -> tuple[tuple[float, float] | None, tuple[str, ...]]:
    """The chance of being real where a judge says so and where it does not, by pairs that people have labelled; and
    sentences on its errors. A label of its own is worth as much less as it tells less of the log-odds of being real."""
    real, says = real[~np.isnan(said)], said[~np.isnan(said)] > 0.5
    if real.sum() < 5 or (~real).sum() < 5:
        return None, (
            "its errors are unknown, because fewer than five real and five noise interactions had been labelled by "
            "people: its answers are taken as they are.",
        )
    right = int((says & real).sum()), int((~says & ~real).sum())
    rng, of = np.random.default_rng(SEED), (int(real.sum()), int((~real).sum()))
    drawn = [rng.beta(hits + 1, number - hits + 1, DRAWS) for hits, number in zip(right, of, strict=True)]
    finds, spares = ((hits + 1) / (number + 2) for hits, number in zip(right, of, strict=True))
    if np.quantile(drawn[0] + drawn[1] - 1, 0.05) <= 0:
        raise InputError(
            f"the judge may be no better than chance: it calls {right[0]} of {of[0]} interactions real that people "
            f"say are, and {right[1]} of {of[1]} noise; nothing is written. Correct it, or give more labels and "
            "judgements to measure it by."
        )
    low, middle, high = (1 / value for value in np.quantile(_worth(drawn[0], drawn[1], share), (0.975, 0.5, 0.025)))
    said_real = finds * share + (1 - spares) * (1 - share)
    meaning = finds * share / said_real, (1 - finds) * share / (1 - said_real)
    return meaning, (
        f"of {len(real)} interactions that people have labelled it calls {right[0]} of {of[0]} real ones real and "
        f"{right[1]} of {of[1]} noise: its answers are written as {meaning[0]:.2f} and {meaning[1]:.2f}.",
        f"one human label is worth {middle:.1f} of its labels ({low:.1f} to {high:.1f}).",
    )


def _worth(finds: Any, spares: Any, share: float) -> Any:
    """Of what a true label tells of the log-odds p / (1 - p) of being real, what an answer tells: (a + b - 1)²
    p (1 - p) / (q (1 - q)), a and b being the chances to be right of real ones and of noise, q that it says real."""
    said_real = finds * share + (1 - spares) * (1 - share)
    return (finds + spares - 1) ** 2 * share * (1 - share) / (said_real * (1 - said_real))
