"""A whole call of Accord, as somebody makes it: `accord.audit` of ml-100k, or `auto` on a simulated log.

    python benchmarks/workers/whole.py CASE

`CASE` is JSON: {"call": "audit" or "auto", "shape": of a simulated log, "device": "cpu", "processes": 2, "times": 1}.
Prints a line of JSON: the log, the wall seconds of each time, and what the last call itself says of them.
"""

import json
import sys
import time

import accord


def of_audit(case):
    try:
        log = accord.load("ml-100k")
    except accord.InputError:
        log = accord.simulate(**case["shape"]).dataset
    return log, lambda: accord.audit(log, device=case["device"], processes=case["processes"]).summary["seconds"]


def of_auto(case):
    log = accord.simulate(**case["shape"]).dataset
    return log, lambda: accord.fit(log, "auto", device=case["device"]).metrics.get("notes", [])


def main():
    case = json.loads(sys.argv[1])
    log, call = {"audit": of_audit, "auto": of_auto}[case["call"]](case)
    times = []
    for _ in range(case.get("times", 1)):
        began = time.perf_counter()
        said = call()
        times.append(time.perf_counter() - began)
    size = {"users": len(log.users), "items": len(log.items), "train": len(log.train)}
    print(json.dumps({"log": log.name, **size, "seconds": times, "said": said}))


if __name__ == "__main__":  # an audit's processes import this file
    main()
