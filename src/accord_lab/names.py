"""How pages write the names of models, methods and datasets."""

from __future__ import annotations

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
_OTHER_METHODS = {"rce": "R-CE", "dcf": "DCF", "udt": "UDT", "pld": "PLD", "eard": "EARD"}
_NAMES = MODELS | METHODS | _DATASETS | _OTHER_MODELS | _OTHER_METHODS


def display_name(name: str) -> str:
    """A model, method or dataset as the pages write it."""
    return _NAMES.get(name, name)
