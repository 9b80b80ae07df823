"""How pages write numbers, and the names of models, methods and datasets."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MODELS = {"gmf": "GMF", "neumf": "NeuMF", "cdae": "CDAE", "lightgcn": "LightGCN"}  # of the paper, as it writes them
METHODS = {
    "normal": "Normal", "wbpr": "WBPR", "tce": "T-CE", "ensemble": "Ensemble", "deca": "DeCA", "deca-p": "DeCA(p)",
}  # fmt: skip
ORACLE = "ease-told"  # EASE trained with the ratings (see leaderboards/oracle.py), as result files name it
_DATASETS = {
    "ml-100k": "MovieLens-100k", "ml-1m": "MovieLens-1M", "modcloth": "Modcloth", "adressa": "Adressa",
    "electronics": "Electronics", "demo": "Built-in data",
}  # fmt: skip
_OTHER_MODELS = {
    "mf": "MF", "ease": "EASE", "item-knn": "item-kNN", "user-knn": "user-kNN", "ials": "iALS",
    ORACLE: "EASE with ratings",
}  # fmt: skip
_OTHER_METHODS = {
    "rce": "R-CE", "dcf": "DCF", "udt": "UDT", "pld": "PLD", "eard": "EARD", "deca-softmax": "DeCA on softmax",
}  # fmt: skip
_NAMES = MODELS | METHODS | _DATASETS | _OTHER_MODELS | _OTHER_METHODS


def display_name(name: str) -> str:
    """A model, method or dataset as the pages write it."""
    return _NAMES.get(name, name)


def standard_deviation(values: npt.ArrayLike) -> float:
    """Over seeds or draws; 0 for a single one."""
    array = np.asarray(values, dtype=float)
    return float(array.std(ddof=1)) if array.size > 1 else 0.0


def mean_sd(values: npt.ArrayLike, digits: int = 4) -> str:
    """The mean of several runs, with their standard deviation if there are at least two."""
    array = np.asarray(values, dtype=float)
    return f"{array.mean():.{digits}f}" + (f" ± {array.std(ddof=1):.{digits}f}" if array.size > 1 else "")


def percent_sd(changes: Floats) -> str:
    """As `mean_sd`, in percent and with its sign."""
    return f"{changes.mean():+.1%}" + (f" ± {standard_deviation(changes):.1%}" if len(changes) > 1 else "")


def mean_sd_or_none(values: npt.ArrayLike | None, digits: int = 4) -> str | None:
    return None if values is None else mean_sd(values, digits)


def short(value: float, digits: int = 4) -> str:
    """A number without its leading zero, and with a real minus sign."""
    text = f"{abs(value):.{digits}f}"
    return ("−" if value < 0 and float(text) else "") + (text[1:] if text.startswith("0.") else text)


def percent(value: float, digits: int = 1) -> str:
    """A change, with its sign."""
    return f"{100 * value:+z.{digits}f}%".replace("-", "−")


def p_value(p: float) -> str:
    return "< .0001" if p < 1e-4 else short(p, 4 if p < 0.01 else 2)


def span(values: Iterable[float], digits: int = 4) -> str:
    """The smallest to the largest; one number if both round to the same."""
    ordered = sorted(values)
    low, high = short(ordered[0], digits), short(ordered[-1], digits)
    return low if low == high else f"{low} to {high}"


def percent_span(values: Iterable[float]) -> str:
    ordered = sorted(values)
    return f"{percent(ordered[0])} to {percent(ordered[-1])}"
