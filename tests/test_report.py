"""The demo's report: its figures are the results', and a real browser shows it from disk."""

from __future__ import annotations

import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

import accord
from accord.noise import detection
from accord.report import write_report


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report of two quick rows, one with a name that would do harm if it were not escaped."""
    simulation = accord.simulate(users=120, items=60, interactions=1500, seed=3)
    data, real = simulation.dataset, simulation.is_real
    results = []
    for name, model in (("<script>document.title = 'harmed'</script>", "popularity"), ("mf + normal", "mf")):
        trained = accord.fit(data, model, "normal", epochs=2, seeds=2)
        found = None if model == "popularity" else np.asarray(trained.noise(data.train).column("p_real"))
        results.append(
            {
                "name": name,
                "metrics": trained.metrics,
                "folder": "runs/x",
                "detection": None if found is None else detection(found, real),
                "p_real": found,
            }
        )
    path = write_report(tmp_path_factory.mktemp("report") / "report.html", data, real, results)
    return path, results


def test_the_report_stands_alone_and_shows_the_results(report):
    path, results = report
    html = path.read_text()
    mean = results[1]["metrics"]["mean"]["recall@20"]
    assert f"{mean:.4f} ± " in html
    assert f"{results[1]['detection']['auc']:.3f}" in html
    assert "<script" not in html
    links = []

    class Links(HTMLParser):
        def handle_starttag(self, tag, attributes):
            links.extend(v for k, v in attributes if k in ("src", "href", "xlink:href") and v and not v.startswith("#"))

    Links().feed(html)
    assert links == []  # nothing is fetched


def test_a_browser_shows_it_from_disk(report, tmp_path):
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium is not here; .ci/run installs it")
    path, _ = report
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
    flags += " --disable-component-update --disable-sync --enable-logging=stderr --v=0"
    done = subprocess.run(
        [browser, *flags.split(), f"--user-data-dir={tmp_path}", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert "<title>Accord on demo</title>" in done.stdout  # no script has changed it
    assert "noise found (AUC)" in done.stdout
    assert "<svg" in done.stdout
    assert "CONSOLE" not in done.stderr
