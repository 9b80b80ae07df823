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
    of_user = audited.of_user(int(rec.users.rows(["u0002"])[0]))
    assert {rec.items.ids[item].as_py(): one["p_real"] for item, one in of_user.items()} == pytest.approx(mine)
    count, found = audited.find(None, None, surest=False, limit=5, offset=0)
    assert count == len(rows)
    assert [one["p_real"] for *_, one in found] == pytest.approx(sorted(row["p_real"] for row in rows)[:5], abs=1e-4)
    _, next_ones = audited.find(None, None, surest=False, limit=5, offset=5)
    assert next_ones[0][2]["p_real"] >= found[-1][2]["p_real"]
    count, (best,) = audited.find(None, None, surest=True, limit=1, offset=0)
    assert best[2]["p_real"] == pytest.approx(max(row["p_real"] for row in rows), abs=1e-4)
    user, item, _ = best
    assert audited.find(user, item, surest=False, limit=5, offset=0) == (1, [best])
