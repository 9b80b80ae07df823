"""Runs a target under atheris, which mutates its seeds by what of Accord's code they reach.

python stress/fuzz/harness.py TARGET CORPUS [options of libFuzzer]
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
BROKEN = "ACCORD_FUZZ_BROKEN"
GUIDES = "ACCORD_FUZZ_GUIDES"


@dataclass(frozen=True)
class Fuzzed:
    what: str
    executions: int
    edges: int  # of our code, that were reached
    seconds: float
    findings: list[str]


def fuzz(name: str, seconds: int, seed: int = 1, broken: bool = False, guides: str = "accord") -> Fuzzed:
    """Fuzz a target in a process of its own; a `broken` one fails at its first input, to show that it is reported.

    `guides`: the package whose code the mutations are guided by; a smaller one starts sooner.
    """
    from fuzz.targets import TARGETS

    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        options = [f"-max_total_time={seconds}", f"-seed={seed}", "-timeout=60", "-rss_limit_mb=4096"]
        options += ["-max_len=65536", "-print_final_stats=1", f"-artifact_prefix={folder}/"]
        command = [sys.executable, str(HERE / "harness.py"), name, str(corpus), *options]
        # what it writes goes with the folder: libFuzzer ends a process without a chance to clean up
        path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "TMPDIR": folder, GUIDES: guides}
        environment |= {BROKEN: "yes"} if broken else {}
        began = time.perf_counter()
        done = subprocess.run(
            command, capture_output=True, check=False, cwd=folder, timeout=seconds * 3 + 600,
            env=environment,
        )  # fmt: skip
        said = done.stderr.decode("utf-8", "replace") + done.stdout.decode("utf-8", "replace")
        executions = re.findall(r"stat::number_of_executed_units:\s*(\d+)", said)
        edges = re.findall(r"cov: (\d+)", said)
        findings = []
        if done.returncode:
            found = said.find("Uncaught Python exception")
            findings = [said[found:][:1500] if found >= 0 else said[-1500:]]
        return Fuzzed(
            TARGETS[name].what, int(executions[-1]) if executions else 0, int(edges[-1]) if edges else 0,
            time.perf_counter() - began, findings,
        )  # fmt: skip


def _fails(data: bytes) -> None:
    raise AssertionError(f"fails on purpose, on {len(data)} bytes")


def main() -> None:
    import atheris

    name, corpus = sys.argv[1:3]
    if name in ("folder", "checkpoint", "api"):
        import torch  # before our own code, which alone is instrumented

        import accord.kernels.cpu  # which numba compiles, and could not with what is put in between

        torch.set_num_threads(1)
    guides = os.environ.get(GUIDES, "accord")
    if guides != "accord":
        import accord.cli.options
        import accord.fitting  # all of it that is no guide: what is imported before is left as it is
    with atheris.instrument_imports(include=[guides], enable_loader_override=False):
        import accord.auditing.health
        import accord.cli.options
        import accord.data.read

        if name in ("folder", "checkpoint", "api"):
            import accord.fitting
            import accord.recommender.recommender
            import accord.serve.api  # noqa: F401
    from fuzz.targets import TARGETS

    target = TARGETS[name]()
    for number, seed in enumerate(target.seeds):
        target.one(seed)  # what takes long at first use is done before the clock runs
        (Path(corpus) / f"seed-{number}").write_bytes(seed)
    atheris.Setup([sys.argv[0], *sys.argv[2:]], _fails if BROKEN in os.environ else target.one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
