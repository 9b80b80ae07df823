"""The checks of the crash campaign notice what is not whole, or not what was expected."""

from __future__ import annotations

import json
import shutil

import intact
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accord.comparing.results import Results
from small_runs import train

LINE = dict.fromkeys(("dataset", "data", "model", "method", "protocol", "settings"), "x")


def test_a_folder_that_is_neither_run_is_noticed(whole, tmp_path):
    """The check itself: the weights of one run beside the metrics of another."""
    folder = tmp_path / "mixed"
    train(folder)
    (folder / "model.safetensors").write_bytes((whole / "5" / "model.safetensors").read_bytes())
    assert not intact.run_is_right(whole / "3", folder)  # its manifest tells
    (folder / "manifest.json").unlink()
    with pytest.raises(AssertionError, match="its weights are others"):
        intact.run_is_right(whole / "3", folder)


def test_a_run_without_its_metrics_is_not_there_yet(whole, tmp_path):
    shutil.copytree(whole / "3", tmp_path / "run")
    assert intact.run_is_right(whole / "3", tmp_path / "run")
    (tmp_path / "run" / "metrics.json").unlink()
    assert not intact.run_is_right(whole / "3", tmp_path / "run")


def written(folder, seeds, seconds, value=1.0):
    Results(folder).add([{**LINE, "seed": seed, "seconds": seconds, "metrics": value} for seed in seeds], {})
    (folder / "compare.csv").write_text("a,b\n")


def test_results_may_differ_in_seconds_alone(tmp_path):
    written(tmp_path / "reference", [1, 2], seconds=5.0)
    written(tmp_path / "same", [1, 2], seconds=9.0)
    written(tmp_path / "half", [1], seconds=5.0)
    written(tmp_path / "other", [1, 2], seconds=5.0, value=2.0)
    written(tmp_path / "turned", [2, 1], seconds=5.0)

    def check(name):
        return intact.results_are_right(tmp_path / "reference", tmp_path / name, "results", "compare.csv")

    assert check("same")
    assert not check("half")
    with pytest.raises(AssertionError, match="another result"):
        check("other")
    with pytest.raises(AssertionError, match="another order"):
        check("turned")
    (tmp_path / "same" / "compare.csv").write_text("a,c\n")
    with pytest.raises(AssertionError, match=r"compare\.csv differs"):
        check("same")


def audit_folder(folder, p_real=0.5, rate=0.1):
    folder.mkdir()
    for name in ("interactions", "users", "items"):
        pq.write_table(pa.table({"p_real": [p_real]}), folder / f"{name}.parquet")
    summary = {"health": {}, "noise": {"rate": rate}, "detection": None, "verdict": None, "seconds": 3}
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def test_an_audit_is_compared_table_by_table(tmp_path):
    reference, same = audit_folder(tmp_path / "reference"), audit_folder(tmp_path / "same")
    assert intact.audit_is_right(reference, same)
    (same / "unfinished").mkdir()
    assert not intact.audit_is_right(reference, same)
    (same / "summary.json").unlink()
    assert not intact.audit_is_right(reference, same)
    with pytest.raises(AssertionError, match=r"interactions\.parquet differs"):
        intact.audit_is_right(reference, audit_folder(tmp_path / "other", p_real=0.4))
    with pytest.raises(AssertionError, match="noise"):
        intact.audit_is_right(reference, audit_folder(tmp_path / "noisier", rate=0.2))
