"""A log whose names, ids and titles are scripts, and the pages made of it: a report, a comparison, an audit."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from fuzz.logs import columns

import accord
from accord.auditing import audit as auditing
from accord.cli import app
from accord.fitting import RunContext, fit_run
from accord.report.run_report import write_report
from accord.training.plan import plan

# One for the name of a file too, so without a slash; it closes what it may stand in.
HARM = "'\"--><img src=x onerror=window.harmed=1><svg onload=window.harmed=1>"
TITLE = (
    f'{HARM}</script></style></title><script>window.harmed=1</script>{{{{7*7}}}}<a href="javascript:window.harmed=1">'
)


@pytest.fixture(scope="session")
def log(tmp_path_factory) -> Path:
    """A log in a file of a harmful name, its ids harmful too, and a table of harmful titles."""
    folder = tmp_path_factory.mktemp("harm")
    rows = columns()
    rows["user"] = [f"{one}{HARM}" for one in rows["user"]]
    rows["item"] = [f"{one}{HARM}" for one in rows["item"]]
    items = sorted(set(rows["item"]))
    pyarrow.csv.write_csv(
        pa.table({"id": items, "title": [f"{one[:3]}{TITLE}" for one in items]}), folder / "items.csv"
    )
    path = folder / f"{HARM}.csv"
    pyarrow.csv.write_csv(pa.table(rows), path)
    return path


@pytest.fixture(scope="session")
def run(log: Path) -> Path:
    data = accord.load(log, items=log.parent / "items.csv")
    folder = log.parent / f"run{HARM}"
    run = plan(data, "gmf", "deca", epochs=1, options={"model.dim": 4})
    trained = fit_run(data, run, out=folder, context=RunContext(command=f"accord {HARM}"))
    write_report(folder / "report.html", [(str(folder), trained)])
    return folder


@pytest.fixture(scope="session")
def compared(log: Path) -> Path:
    out = log.parent / "compared"
    words = ["accord", "compare", str(log), "--methods", "normal", "--seeds", "1", "--epochs", "1", "--out", str(out)]
    before, sys.argv = sys.argv, words
    try:
        with pytest.raises(SystemExit) as ended:
            app.main()
    finally:
        sys.argv = before
    assert ended.value.code == 0
    return out


@pytest.fixture(scope="session")
def audited(log: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auditing, "verdict", lambda *_, **__: None)  # which says nothing of ids, and takes long
        made = auditing.audit(log, items=log.parent / "items.csv", seeds=1, command=f"accord {HARM}")
    return made.save(log.parent / "audited")
