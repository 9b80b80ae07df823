from __future__ import annotations

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accord import Recommender
from accord.errors import InputError
from accord.serve.audited import Audited
from serving import audit, run  # noqa: F401


def test_audit_folders_that_do_not_belong(tmp_path, run, audit):  # noqa: F811
    rec = Recommender.load(run)
    with pytest.raises(InputError, match=r"there is no summary.json; give the folder that `accord audit` wrote"):
        Audited(tmp_path, rec)
    shutil.copytree(audit, tmp_path / "other")
    (tmp_path / "other" / "summary.json").write_text('{"kind": "run"}')
    with pytest.raises(InputError, match="is not the folder of an audit"):
        Audited(tmp_path / "other", rec)


def test_an_audit_of_other_data_does_not_belong(tmp_path, run, audit):  # noqa: F811
    shutil.copytree(audit, tmp_path / "other")
    path = tmp_path / "other" / "interactions.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "user", pa.array([f"x{row}" for row in range(len(table))])), path)
    with pytest.raises(InputError, match="other data than the run"):
        Audited(tmp_path / "other", Recommender.load(run))


def test_interactions_by_user_and_by_item(run, audit):  # noqa: F811
    rec = Recommender.load(run)
    audited = Audited(audit, rec)
    table = pq.read_table(audit / "interactions.parquet")
    rows = table.to_pylist()
    mine = {row["item"]: round(row["p_real"], 4) for row in rows if row["user"] == "u0002"}
    of_user = audited.find(user=int(rec.users.rows(["u0002"])[0])).to_pylist()
    assert {rec.items.ids[row["item"]].as_py(): row["p_real"] for row in of_user} == pytest.approx(mine)
    everything = audited.find(user=None, item=None)
    assert everything["p_real"].to_pylist() == pytest.approx(sorted(row["p_real"] for row in rows), abs=1e-4)
    last = everything.to_pylist()[-1]
    assert audited.find(user=last["user"], item=last["item"]).to_pylist() == [last]
