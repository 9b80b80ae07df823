"""Many runs on a Ray cluster: two nodes on this machine give what one process gives, and lose nothing."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch
import yaml

from accord.cli.app import main
from accord.comparing.compare import Request, cells_of, compare
from accord.comparing.executor import Job, Workers, workers_on
from accord.comparing.results import Results
from accord.errors import InputError

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")
SMALL = {"object_store_memory": 80 * 2**20, "num_cpus": 1, "memory": 2 * 2**30, "include_dashboard": False}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster of two nodes, both on this machine, with a CPU each; the second says that it has a GPU."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 # else they wait for minutes beside the other tests
    from ray import cloudpickle
    from ray.cluster_utils import Cluster

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import the tests
    cluster = Cluster(initialize_head=True, head_node_args=SMALL)
    cluster.add_node(num_gpus=1, **SMALL)
    yield cluster.address
    cluster.shutdown()


@pytest.fixture(scope="module")
def workers(address: str) -> Iterator[Workers]:
    with workers_on(address, quiet) as found:
        yield found


def quiet(_text: str) -> None:
    pass


def comparable(results: Results) -> tuple[list[dict[str, Any]], Any]:
    """Everything in the order of the files, but how long it took."""
    lines = [json.loads(line) for line in results.file.read_text().splitlines()]
    users = {metric: {key: list(own) for key, own in results.per_user(metric).items()} for metric in ("ndcg@20",)}
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines], users


def die_once(marker: Path, _run: Any, _method: Any, epoch: int) -> None:
    """Kills the process that trains, at the end of its second epoch, the first time."""
    if epoch == 2 and not marker.exists():
        marker.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_costs_nothing(data: Any, workers: Workers, tmp_path: Path) -> None:
    cells = cells_of(["mf"], ["normal", "deca-p"], {})
    request = Request(data, seeds=2, epochs=3, device="cpu", say=quiet)
    expected = comparable(compare(request, cells, Results(tmp_path / "here")))

    said: list[str] = []
    killing = partial(die_once, tmp_path / "killed")
    there = replace(request, say=said.append, workers=workers, each_epoch=killing)
    found = comparable(compare(there, cells, Results(tmp_path / "there")))
    assert (tmp_path / "killed").exists()
    assert (tmp_path / "killed").read_text() != str(os.getpid())
    assert found == expected
    assert {path.name for path in (tmp_path / "there").iterdir()} == {"results.jsonl", "results.per_user.parquet"}


def where_and_how(_data: Any, seconds: float, device: torch.device, watch: Any, say: Any) -> Iterator[Any]:
    import ray

    say("hello")
    time.sleep(seconds)
    yield ray.get_runtime_context().get_node_id(), torch.get_num_threads(), device.type


def test_both_nodes_work_and_tell(workers: Workers) -> None:
    said: list[str] = []
    bars: list[Any] = []
    jobs = [Job("first", 1.0), Job("second", 1.0)]
    found = dict(workers.each(where_and_how, None, jobs, CPU, bars.append, said.append))
    assert len({node for node, _, _ in found.values()}) == 2
    assert {(threads, device) for _, threads, device in found.values()} == {(1, "cpu")}
    assert "first: hello" in said
    assert [(bar.epoch, bar.epochs) for bar in bars] == [(1, 2), (2, 2)]


def test_jobs_for_a_gpu_go_where_one_is(workers: Workers) -> None:
    device = workers.device("auto")
    assert device.type == "cuda"
    jobs = [Job("first", 0.0), Job("second", 0.0)]
    found = dict(workers.each(where_and_how, None, jobs, device, None, quiet))
    assert {kind for _, _, kind in found.values()} == {"cuda"}
    assert len({node for node, _, _ in found.values()}) == 1


def test_jobs_that_are_abandoned_are_cancelled(workers: Workers) -> None:
    """Else the two that sleep would hold both CPUs for ten minutes."""
    three = workers.each(where_and_how, None, [Job("a", 0.0), Job("b", 600.0), Job("c", 600.0)], CPU, None, quiet)
    number, _ = next(three)
    assert number == 0
    three.close()  # type: ignore[attr-defined]  # as a Ctrl-C does
    after = workers.each(where_and_how, None, [Job("d", 0.0), Job("e", 0.0)], CPU, None, quiet)
    assert {number for number, _ in after} == {0, 1}


def failing(_data: Any, error: Exception, *_rest: Any) -> Iterator[Any]:
    raise error
    yield


def test_errors_of_workers_are_our_own(workers: Workers) -> None:
    with pytest.raises(InputError, match=r"^diverged$"):
        list(workers.each(failing, None, [Job("a", InputError("diverged"))], CPU, None, quiet))
    error = ModuleNotFoundError("No module named 'my_models'")
    with pytest.raises(InputError, match=r"has no module 'my_models'; install accord and what it needs there"):
        list(workers.each(failing, None, [Job("a", error)], CPU, None, quiet))
    with pytest.raises(InputError, match="auto, cpu or cuda"):
        workers.device("cuda:1")


def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[Any, str]:
    monkeypatch.setattr(sys, "argv", ["accord", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ("127.0.0.1:1", "nothing answers there"),
        ("no-such-host.invalid:6379", "nothing answers there"),
        ("ray://somewhere:10001", "give auto, or the HOST:PORT"),
        ("somewhere", "give auto, or the HOST:PORT"),
    ],
)
def test_a_wrong_address_is_said(
    cluster: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    code, err = command(monkeypatch, capsys, "compare", "demo", "--cluster", cluster)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert time.monotonic() - began < 120


def test_a_port_of_somebody_else_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        code, err = command(monkeypatch, capsys, "compare", "demo", "--cluster", f"127.0.0.1:{server.server_port}")
        server.shutdown()
    assert code == 2
    assert "what answers there is not Ray" in err


def test_ray_is_asked_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    code, err = command(monkeypatch, capsys, "audit", "demo", "--cluster", "auto")
    assert code == 2
    assert err == "accord: --cluster needs Ray, which is not installed; pip install 'accord[cluster]'.\n"


def test_the_page_says_what_was_measured() -> None:
    found = json.loads((ROOT / "benchmarks/scale/ray.json").read_text())
    assert found["worker_killed"] == {"exit": 0, "run_again": 1, "equal": True}
    assert found["node_killed"]["equal"]
    assert found["stopped"]["exit"] == 130
    assert found["stopped"]["left_running"] == 0
    assert found["stopped"]["equal_when_continued"]
    page = " ".join((ROOT / "docs/records/scaling.md").read_text().split())
    section = page[page.index("## Many runs") : page.index("## One large run")]
    for said in (
        f"{found['runs']} runs",
        f"{found['dataset_bytes'] / 1e6:.2f} MB",
        f"{found['ray_processes_bytes'] / 1e6:.0f} MB",
        f"kept {found['stopped']['kept']} runs",
        f"Ray {found['ray']}",
    ):
        assert said in section, said


def test_the_cluster_file_is_one() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(yaml.safe_load((ROOT / "docs/examples/ray-cluster.yaml").read_text())))
    job = yaml.safe_load((ROOT / "docs/examples/rayjob.yaml").read_text())
    assert job["kind"] == "RayJob"
    assert "--cluster auto" in job["spec"]["entrypoint"]
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    assert job["spec"]["rayClusterSpec"]["rayVersion"] == pinned["ray"]
