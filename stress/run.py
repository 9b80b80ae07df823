"""Every long campaign, one after another: `make stress`, or some of them by STRESS="--only crash inputs".

Each is a file of this folder that runs alone and writes its own results; afterwards the page is written from them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
CAMPAIGNS = ("arithmetic", "chaos", "crash", "determinism", "faults", "inputs", "load", "supply")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these campaigns alone")
    given = options.parse_args()
    unknown = sorted(set(given.only) - set(CAMPAIGNS))
    if unknown:
        options.error(f"no campaign is called {', '.join(unknown)}; there are {', '.join(CAMPAIGNS)}")
    failed = []
    for name in given.only or CAMPAIGNS:
        began = time.perf_counter()
        code = subprocess.run([sys.executable, str(HERE / f"{name}.py")], check=False).returncode
        print(f"{name}: exit {code} after {time.perf_counter() - began:.0f} s", flush=True)
        failed += [name] if code else []
    subprocess.run([sys.executable, str(HERE / "page.py")], check=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
