"""Small comparisons: what they are asked, and which stacks they train."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import accord
from accord.comparing import compare as comparing
from accord.comparing.compare import Request


def quiet(*_words):
    pass


def sizes_of_stacks(monkeypatch):
    """The sizes of the stacks that are trained."""
    sizes, train = [], comparing.train_run

    def watched(data, run, *rest, **options):
        sizes.append(len(run.config.seeds))
        return train(data, run, *rest, **options)

    monkeypatch.setattr(comparing, "train_run", watched)
    return sizes


def ask(data):
    return Request(data, seeds=2, epochs=2, say=quiet)


def titled(parts, ending):
    return next(part for part in parts if part.title.endswith(ending))


def rated(data):
    """The data with ratings instead of labels, so that noise has to be put in."""
    table = data.train.table.set_column(2, "value", [np.where(data.train.column("value") == 1, 5.0, 2.0)])
    return replace(data, name="rated", train=accord.Interactions(table))
