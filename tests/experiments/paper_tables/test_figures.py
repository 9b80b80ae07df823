"""The paper's figures: what a line of raw results holds, what is computed of it, and that drawing is repeatable."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

import accord
from accord.data.interactions import Dataset, Interactions
from accord.experiments.compare import Request
from accord.experiments.paper_tables.agreement import disagreement, packed, unpacked
from accord.experiments.paper_tables.drawing import STYLES
from accord.experiments.paper_tables.experiment import believed, rated
from accord.experiments.paper_tables.reproduce import EXPERIMENTS, reproduce
from accord.experiments.results import Results
from accord.report.tables import Figure, Table

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
    assert "<svg role=" in files[f"{name}.html"].decode()
    assert not re.search(r"<dc:date>|<image|href=\"http", figure.svg)
    return parts, Results(folder, name).read()


def texts(figure):
    return [(text.text or "").strip() for text in ElementTree.fromstring(figure.svg).iter(f"{SVG}text")]


def test_curves_run_to_the_end_and_are_of_the_test(tmp_path):
    (figure, ends, by_epoch), lines = run("curves", tmp_path)
    assert [(line["method"], line["seed"]) for line in lines] == [
        (method, seed) for method in ("normal", "deca", "deca-p") for seed in (2019, 2020)
    ]
    for line in lines:
        assert [point["epoch"] for point in line["curve"]] == [1, 2]
        assert not line["settings"]["train.early_stop"]
        last = {name: value for name, value in line["curve"][-1].items() if name != "epoch"}
        assert set(last) == {"recall@5", "recall@20", "ndcg@5", "ndcg@20"}
        assert last == pytest.approx({name: line["metrics"][name] for name in last}, abs=1e-7)
    assert {"Normal", "DeCA", "DeCA(p)", "epoch", "recall@20 on the clean test"} <= set(texts(figure))
    assert [row[0] for row in ends.rows] == ["gmf + normal", "gmf + deca", "gmf + deca-p"]
    assert len(by_epoch.rows) == 2
    values = [line["curve"][1]["recall@20"] for line in lines[:2]]
    assert by_epoch.rows[1][1] == f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}"


def test_curves_end_at_the_same_epoch():
    request = quiet(simulated("adressa"), epochs=None)
    cells = EXPERIMENTS["curves"].cells(request, ["gmf"], ["normal", "deca", "deca-p"])
    assert {cell.options for cell in cells} == {(("train.epochs", 15),)}  # of DeCA; the others have 10


def test_disagreement_by_hand():
    one, other = np.array([1, 1, 1, 0], bool), np.array([1, 1, 0, 1], bool)
    differ, kappa = disagreement(one, other)
    assert differ == 0.5
    assert kappa == pytest.approx(1 - 0.5 / (2 * 0.75 * 0.25))
    assert disagreement(one, one) == (0.0, 1.0)
    bits = np.random.default_rng(0).random(1003) < 0.9
    assert np.array_equal(unpacked(packed(bits), len(bits)), bits)


def test_agreement_is_of_models_and_of_seeds(tmp_path):
    parts, lines = run("agreement", tmp_path, ["mf", "gmf"])
    figure, models, seeds, shares = parts
    assert [(line["model"], line["seed"]) for line in lines] == [
        (model, seed) for model in ("mf", "gmf") for seed in (2019, 2020)
    ]
    settings = [{k: v for k, v in line["settings"].items() if k.startswith("train.")} for line in lines]
    assert all(own == settings[0] for own in settings)  # MF trains as GMF does
    _, _, ratings = rated(simulated())
    noisy = np.isin(ratings, (1, 2))
    bits = {(line["model"], line["seed"]): unpacked(line["predictions"], len(ratings)) for line in lines}
    between = [(bits["mf", seed] != bits["gmf", seed])[noisy].mean() for seed in (2019, 2020)]
    assert [row[0] for row in models.rows] == ["MF – GMF"]
    assert models.rows[0][2] == f"{np.mean(between):.4f} ± {np.std(between, ddof=1):.4f}"
    assert [row[0] for row in seeds.rows] == ["MF", "GMF"]
    assert seeds.rows[1][2] == f"{(bits['gmf', 2019] != bits['gmf', 2020])[noisy].mean():.4f}"
    assert f"noisy: {noisy.sum():,} pairs" in shares.columns
    assert {"clean (ratings 4 and 5)", "noisy (ratings 1 and 2)"} <= set(texts(figure))


def test_the_posterior_is_of_the_training_pairs(tmp_path):
    (figure, table), lines = run("posterior", tmp_path)
    assert [line["settings"]["method.h"] for line in lines[::2]] == ["mf", "gmf", "neumf"] * 2
    data = simulated()
    line = next(line for line in lines if (line["method"], line["seed"]) == ("deca", 2020))
    fitted = accord.fit(data, "gmf", "deca", protocol="published", seeds=[2019, 2020], epochs=2, device="cpu")
    users, items, ratings = rated(data)
    own = believed(fitted, users, items)[1]
    assert line["posterior"] == pytest.approx({f"{r}": own[ratings == r].mean() for r in range(1, 6)}, abs=1e-5)
    assert table.columns[1] == "rating 1"
    assert table.rows[0][1] == f"{(ratings == 1).sum():,}"
    assert len(table.rows) == 1 + 6
    assert "popularity alone has 0." in table.notes[1]
    assert {"h and h′: MF", "h and h′: NeuMF", "rating"} <= set(texts(figure))


def test_without_ratings_there_is_no_agreement_nor_posterior(tmp_path):
    data = accord.simulate(users=120, items=60, interactions=1500, seed=3, name="modcloth").dataset
    bare = Dataset.of("modcloth", Interactions.of(data.train.users, data.train.items), data.valid, data.test)
    for name in ("agreement", "posterior"):
        with pytest.raises(accord.InputError, match="carry no ratings"):
            reproduce(name, [bare], None, None, quiet, tmp_path)


def test_the_grid_is_shown_as_heat_maps(tmp_path):
    parts, lines = run("grid", tmp_path, request=lambda data: quiet(data, 1, 1))
    figure, tables = parts[0], [part for part in parts if isinstance(part, Table)]
    assert len(lines) == 2 * 48
    assert len(tables) == 6
    assert all(len(table.rows) == 4 and len(table.columns) == 5 for table in tables)
    assert [sum(len(table.marked) for table in own) for own in (tables[:3], tables[3:])] == [1, 1]
    value = {
        (line["method"], *(line["settings"][f"method.{name}"] for name in ("alpha", "c1", "c2"))): line["metrics"]
        for line in lines
    }
    assert tables[4].title == "modcloth, GMF, DeCA(p), α = 0.5: recall@20"
    assert tables[4].rows[1][3] == value["deca-p", 0.5, 10.0, 100.0]["recall@20"]
    best = max(metrics["recall@20"] for key, metrics in value.items() if key[0] == "deca")
    assert f"({best:.4f}), framed" in figure.caption
    numbers = [text for text in texts(figure) if re.fullmatch(r"0\.\d{3}", text)]
    assert len(numbers) >= 2 * 48


def test_half_a_grid_is_no_heat_map(tmp_path):
    data = simulated()
    reproduce("grid", [data], None, ["deca"], lambda one: quiet(one, 1, 1), tmp_path)
    results = Results(tmp_path, "grid")
    results.file.write_text("".join(results.file.read_text().splitlines(keepends=True)[:-1]))
    assert reproduce("grid", [data], None, None, lambda one: quiet(one, 1, 1), tmp_path, render_only=True) == []
    assert "modcloth: 49 of 96 not run yet" in (tmp_path / "grid.md").read_text()


def test_lines_differ_in_more_than_colour():
    for what in ("linestyle", "marker"):
        assert len({style[what] for style in STYLES}) == len(STYLES)
    greys = [_grey(style["color"]) for style in STYLES[:3]]
    assert min(abs(a - b) for i, a in enumerate(greys) for b in greys[:i]) > 0.1


def _grey(colour):
    """Luminance of a colour, 0 to 1, as a grey print has it."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return math.pow(0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2, 1 / 2.2)
