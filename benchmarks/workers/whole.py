"""A whole call of Accord, as somebody makes it: `accord.audit` of ml-100k, or `auto` on a simulated log.

    python benchmarks/workers/whole.py CASE

`CASE` is JSON: {"call": "audit" or "auto", "shape": of a simulated log, "device": "cpu", "processes": 2, "times": 1}.
Prints a line of JSON: the log, the wall seconds of each time, and what the last call itself says of them. A small log
goes first, so that libraries are imported and kernels compiled.
"""

import contextlib
import json
import sys
import time

import accord

SMALL = {"users": 300, "items": 200, "interactions": 5_000}


def audit(log, case):
    return accord.audit(log, device=case["device"], processes=case["processes"]).summary["seconds"]


def auto(log, case):
    return accord.fit(log, "auto", device=case["device"]).metrics.get("notes", [])


def log_of(case):
    if case["call"] == "audit":
        with contextlib.suppress(accord.InputError):
            return accord.load("ml-100k")
    return accord.simulate(**case["shape"]).dataset


def main():
    case = json.loads(sys.argv[1])
    call, log = {"audit": audit, "auto": auto}[case["call"]], log_of(case)
    call(accord.simulate(**SMALL).dataset, case)
    times = []
    for _ in range(case.get("times", 1)):
        began = time.perf_counter()
        said = call(log, case)
        times.append(time.perf_counter() - began)
    size = {"users": len(log.users), "items": len(log.items), "train": len(log.train)}
    print(json.dumps({"log": log.name, **size, "seconds": times, "said": said}))


if __name__ == "__main__":  # an audit's processes import this file
    main()
