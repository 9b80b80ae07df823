"""Small runs of the paper's experiments, on simulated data with ratings."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np

import accord
from accord.comparing.compare import Request
from accord.comparing.results import Results
from accord.data.interactions import Dataset, Interactions
from accord_lab.paper.reproduce import reproduce
from accord_lab.writing import Figure

SVG = "{http://www.w3.org/2000/svg}"


def simulated(name="modcloth"):
    """Training pairs with ratings: 5 or 4 where the click was real, 1 or 2 where it was noise, a few 3."""
    data = accord.simulate(users=120, items=60, interactions=1500, seed=3, name=name).dataset
    real = data.train.column("value") > 0
    low = np.random.default_rng(1).integers(1, 3, len(real))
    ratings = np.where(np.arange(len(real)) % 10 == 0, 3, np.where(real, low + 3, low)).astype(float)
    train = Interactions.of(data.train.users, data.train.items, ratings)
    return Dataset.of(name, train, data.valid, data.test)


def quiet(data, seeds=2, epochs=2):
    return Request(data, "published", seeds, (), epochs, say=lambda _: None)


def run(name, folder, models=None, request=quiet, **more):
    """The parts of a page, and the raw lines behind them; drawing anew from the lines alone gives the same files."""
    parts = reproduce(name, [simulated()], models, None, request, folder, **more)
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    reproduce(name, [simulated()], None, None, request, folder, render_only=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == files
    figure = next(part for part in parts if isinstance(part, Figure))
    assert figure.file == f"{name}-modcloth.svg"
    assert files[figure.file].decode() == figure.svg
    assert f"]({figure.file})" in files[f"{name}.md"].decode()
    assert "<img src=" in files[f"{name}.html"].decode()
    assert not re.search(r"<dc:date>|<image|href=\"http", figure.svg)
    return parts, Results(folder, name).read()


def texts(figure):
    return [(text.text or "").strip() for text in ElementTree.fromstring(figure.svg).iter(f"{SVG}text")]
