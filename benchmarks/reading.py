"""Reading a log up to a dataset that is split and has its training CSR: time and memory, against a plain pyarrow read.

    python benchmarks/reading.py [--folder FOLDER] [CASE ...]

Each case is made (the same bytes every time), read by pyarrow alone and by `accord.load`, each in a process of its own
whose address space is limited, and removed. A line of JSON a case: `multiple` is CPU time over the CPU time of the
plain read, which does not depend on who else is using the machine; `peak_bytes` is resident memory at its highest,
`added_bytes` without what the interpreter and its libraries take before they read anything.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

LIMIT = 14 * 2**30  # bytes of address space for each process that measures
GROUP = 2**20  # rows that are made at once
FIVE_YEARS = 5 * 365 * 86_400


def movielens(rows: int = 1_000_209, users: int = 6_040, items: int = 3_706) -> pa.Table:
    """The shape of MovieLens-1M: rows by user, no pair twice, many equal times."""
    rng = np.random.default_rng(1)
    keys = np.zeros(0, dtype=np.int64)
    while len(keys) < rows:
        user = np.minimum(rng.lognormal(6.5, 1.2, rows).astype(np.int64), users - 1)
        user = np.where(rng.random(rows) < 0.6, user, rng.integers(users, size=rows))
        item = (items * rng.random(rows) ** 2).astype(np.int64)
        keys = np.unique(np.concatenate([keys, user * items + item]))
    keys = np.sort(rng.permutation(keys)[:rows])
    times = 956_703_932 + keys // items * 600 + rng.integers(300, size=rows)
    columns = [1 + keys // items, 1 + keys % items, rng.integers(1, 6, rows), times]
    return pa.table(columns, names=["userId", "movieId", "rating", "timestamp"])


def log(rows: int, users: int, items: int, text: bool) -> Iterator[pa.Table]:
    """A log in the order of time, some users and items far busier than others."""
    rng = np.random.default_rng(2)
    for start in range(0, rows, GROUP):
        size = min(GROUP, rows - start)
        user = (users * rng.random(size) ** 1.5).astype(np.int64) * 982_451_653 % users
        item = (items * rng.random(size) ** 2).astype(np.int64) * 961_748_941 % items
        at = 1_500_000_000 + (np.arange(start, start + size) * (FIVE_YEARS / rows)).astype(np.int64)
        ids = [pa.array(user), pa.array(item)]
        if text:
            ids = [pc.binary_join_element_wise(pa.scalar(kind), column.cast(pa.string()), "-") for kind, column in
                   zip(("customer", "product"), ids, strict=True)]  # fmt: skip
        yield pa.table([*ids, rng.integers(1, 11, size) / 2, at], names=["user", "item", "value", "time"])


def write_text(path: Path) -> None:
    table = movielens()
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        rows = pc.binary_join_element_wise(*(column.cast(pa.string()) for column in table.columns), "::")
        path.write_text("\n".join(rows.to_pylist()) + "\n")


def write_log(path: Path, rows: int, users: int, items: int, text: bool) -> None:
    writer = None
    for table in log(rows, users, items, text):
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


CASES = {
    "movielens-1m-csv": ("ratings.csv", write_text, ()),
    "movielens-1m-dat": ("ratings.dat", write_text, ()),
    "parquet-2m": ("log.parquet", write_log, (2_000_000, 200_000, 20_000, False)),
    "parquet-10m": ("log.parquet", write_log, (10_000_000, 1_000_000, 50_000, False)),
    "parquet-20m-text-ids": ("log.parquet", write_log, (20_000_000, 2_000_000, 100_000, True)),
    "parquet-100m": ("log.parquet", write_log, (100_000_000, 2_000_000, 100_000, False)),
}


def plain_read(path: Path) -> int:
    """What pyarrow takes for the same bytes, every column in the type it finds."""
    if path.suffix == ".parquet":
        return int(pq.read_table(path).num_rows)
    if path.suffix == ".csv":
        return int(pyarrow.csv.read_csv(path).num_rows)
    # "::" is read as ":" with an empty column between
    names = pyarrow.csv.ReadOptions(column_names=["user", "", "item", "-", "value", "--", "time"])
    return int(pyarrow.csv.read_csv(path, names, pyarrow.csv.ParseOptions(delimiter=":")).num_rows)


def load(path: Path) -> int:
    """Up to what training starts from."""
    import accord

    data = accord.load(path)
    return len(data.csr(data.train).items)


def measure(what: str, path: Path) -> None:
    """One reading in this process; prints a line of JSON."""
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    import pyarrow.dataset  # noqa: F401  (to import is not to read)

    import accord.data.read  # noqa: F401

    before, began, cpu = peak_bytes(), time.perf_counter(), time.process_time()
    rows = {"plain": plain_read, "load": load}[what](path)
    seconds, cpu, peak = time.perf_counter() - began, time.process_time() - cpu, peak_bytes()
    figures = {"rows": rows, "seconds": seconds, "cpu_seconds": cpu, "peak_bytes": peak, "added_bytes": peak - before}
    print(json.dumps(figures))


def peak_bytes() -> int:
    """Resident memory at its highest; what getrusage says includes the parent's."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def measured(what: str, path: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--measure", what, str(path)], check=True, stdout=subprocess.PIPE, text=True
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} (all)")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where files are made")
    parser.add_argument("--measure", nargs=2, metavar=("WHAT", "PATH"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure[0], Path(given.measure[1]))
        return
    for case in given.cases or CASES:
        name, write, shape = CASES[case]
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            path = Path(folder) / name
            write(path, *shape)
            plain, ours = measured("plain", path), measured("load", path)
            line = {
                "case": case,
                "rows": plain["rows"],
                "file_bytes": path.stat().st_size,
                "seconds": round(ours["seconds"], 2),
                "cpu_seconds": round(ours["cpu_seconds"], 2),
                "plain_seconds": round(plain["seconds"], 2),
                "plain_cpu_seconds": round(plain["cpu_seconds"], 2),
                "multiple": round(ours["cpu_seconds"] / plain["cpu_seconds"], 2),
                "peak_bytes": ours["peak_bytes"],
                "added_bytes": ours["added_bytes"],
                "plain_peak_bytes": plain["peak_bytes"],
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
