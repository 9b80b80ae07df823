"""Item titles: from a file or frame, through training to the run folder and the lists."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accord import Recommender, fit, load
from accord.cli.app import main
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


def test_ids_may_be_called_as_in_the_log(tmp_path):
    log = write(tmp_path, "clicks.csv", CLICKS.replace("item", "code", 1))
    films = write(tmp_path, "films.csv", "product,code,title\nx,3,Heat\ny,0,Alien\n")
    data = load(log, columns={"item": "code"}, items=films)
    assert data.item_info.column("title").to_pylist()[:4] == ["Alien", None, None, "Heat"]
    assert data.item_info.column("product").to_pylist()[:4] == ["y", None, None, "x"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "id,a_title,b_name\n1,x,y\n",
            r"must have one column of item ids \('id'\), at most one 'title', and any others",
        ),
        ("title,year\nAlien,1990\n", r"must have one column of item ids"),
        ("id,itemId,title\n1,1,Alien\n", r"must have one column of item ids"),
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
    with pytest.warns(UserWarning, match=r"^where 'genre=opera': no item is left to recommend\.$"):
        assert not len(rec.recommend([0], where="genre=opera"))


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
