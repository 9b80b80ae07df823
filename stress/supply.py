"""What we build and what we build on: `python stress/supply.py [dist | sbom | licences | vulnerabilities]`.

dist             sdist and wheel of the last commit in dist/, the same bytes each time
sbom             a CycloneDX list of all components in dist/
licences         the licence of each; fails on one that is unknown or not on our list
vulnerabilities  asks the OSV service about every pinned version; fails on a known one, and if it could not ask

Without a word all of them are tried, and the results written. The tools are in .supply-venv: `make dist` sets it up.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from record import Found, Table, table_as_text

ROOT = Path(__file__).parent.parent
TOOLS = ROOT / ".supply-venv" / "bin"
OURS = ROOT / ".venv" / "bin" / "python"  # whose packages are listed
DIST = ROOT / "dist"
DEVELOPMENT = "dev"  # the extra that is not for users

# of use without conditions on our own code
PERMISSIVE = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0",
    "ISC", "MIT", "MIT-CMU", "PSF-2.0", "Unlicense", "Zlib",
}  # fmt: skip
BY_FILE = {"MPL-2.0"}  # conditions only for who changes its files, which we do not
NAMES = {  # what packages write that have no SPDX name
    "MIT License": "MIT", "BSD License": "BSD", "3-Clause BSD License": "BSD-3-Clause", "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0", "Apache License 2.0": "Apache-2.0", "ISC License (ISCL)": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0", "Python Software Foundation License": "PSF-2.0",
}  # fmt: skip
LOOKED_UP = {  # packages that do not say it in their metadata, and where it is written
    "axe-playwright-python": ("MIT", "licenses/LICENSE in its wheel"),
    "atheris": ("Apache-2.0", "licenses/LICENSE in its wheel"),
}


class Trouble(Exception):
    """One sentence, and the exit code."""

    def __init__(self, sentence: str, code: int = 1) -> None:
        super().__init__(sentence)
        self.code = code


def tool(name: str) -> str:
    path = TOOLS / name
    if not path.exists():
        raise Trouble(f"{name} is not installed; set it up: make {TOOLS.parent.name}/.ready", 2)
    return str(path)


def output_of(command: list[str], **more: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        told = (done.stderr or done.stdout).strip().splitlines()
        raise Trouble(f"{Path(command[0]).name} failed: {told[-1] if told else f'exit {done.returncode}'}")
    return done.stdout


def git(*words: str) -> str:
    return output_of(["git", "-C", str(ROOT), *words]).strip()


# --- dist


def dist(out: Path = DIST, commit: str = "HEAD") -> dict[str, str]:
    """Build a commit in a folder of its own, so that nothing else that lies about gets in; sha256 by file."""
    epoch = int(git("log", "-1", "--format=%ct", commit))
    with tempfile.TemporaryDirectory() as name:
        source, made = Path(name) / "source", Path(name) / "dist"
        whole = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
            archive.extractall(source, filter="data")
        # build makes the wheel from the sdist, with the setuptools of .supply-venv and not the newest there is
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
        command = [tool("python"), "-m", "build", "--no-isolation", "--outdir", str(made), str(source)]
        output_of(command, env=environment, umask=0o022)
        out.mkdir(parents=True, exist_ok=True)
        sums = {}
        for path in sorted(made.iterdir()):
            content = path.read_bytes()
            content = settled(content, epoch) if path.name.endswith(".tar.gz") else content
            (out / path.name).write_bytes(content)
            sums[path.name] = hashlib.sha256(content).hexdigest()
    return sums


def settled(sdist: bytes, epoch: int) -> bytes:
    """The same files without what depends on when, where and by whom they were packed."""
    plain = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(sdist)) as old,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            kept = tarfile.TarInfo(member.name)
            kept.type, kept.size, kept.linkname, kept.mtime = member.type, member.size, member.linkname, epoch
            kept.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(kept, old.extractfile(member) if member.isfile() else None)
    return gzip.compress(plain.getvalue(), 9, mtime=epoch)


# --- components


def sbom(out: Path = DIST) -> Path:
    """What users get is required, what they may choose optional, and the tools of development are excluded."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": git("log", "-1", "--format=%ct")}
    command = [tool("cyclonedx-py"), "environment", str(OURS), "--pyproject", str(ROOT / "pyproject.toml")]
    content = json.loads(
        output_of([*command, "--output-reproducible", "--no-validate", "--of", "JSON"], env=environment)
    )
    project = our_project()
    marked(content, project)
    out.mkdir(parents=True, exist_ok=True)
    content["metadata"]["component"]["version"] = our_version()
    path = out / f"{project['name']}-{our_version()}.cdx.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def check_sbom(path: Path) -> None:
    """Against the scheme of CycloneDX; takes a while."""
    code = (
        "import sys; from cyclonedx.schema import SchemaVersion as V; from cyclonedx.validation.json import *;"
        "wrong = JsonStrictValidator(V.V1_6).validate_str(open(sys.argv[1]).read()); sys.exit(wrong and repr(wrong))"
    )
    output_of([tool("python"), "-c", code, str(path)])


def marked(content: dict[str, Any], project: Mapping[str, Any]) -> None:
    """Say of each component what it is for; leave out ourselves, strangers, and where this machine keeps files."""
    extras = project["optional-dependencies"]
    required, ours = needed(project, []), needed(project, extras)
    chosen = needed(project, [extra for extra in extras if extra != DEVELOPMENT])
    content["components"] = [part for part in content["components"] if plain(part["name"]) in ours]
    for part in content["components"]:
        name = plain(part["name"])
        part["scope"] = "required" if name in required else "optional" if name in chosen else "excluded"
        links = part.get("externalReferences", [])
        part["externalReferences"] = [link for link in links if not link["url"].startswith("file:")]
    refs = {part["bom-ref"] for part in content["components"]} | {content["metadata"]["component"]["bom-ref"]}
    content["dependencies"] = [
        entry | {"dependsOn": [ref for ref in entry.get("dependsOn", []) if ref in refs]}
        for entry in content["dependencies"]
        if entry["ref"] in refs
    ]


def plain(requirement: str) -> str:
    """The name alone, as packages are compared by it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]).lower()


def needed(project: Mapping[str, Any], extras: Iterable[str]) -> set[str]:
    """Every package that the project needs with these extras, by what the packages themselves say."""
    uses = installed()
    left = [Requirement(one) for one in project["dependencies"]]
    left += [Requirement(one) for extra in extras for one in project["optional-dependencies"].get(extra, [])]
    found: set[tuple[str, str]] = set()
    while left:
        wanted = left.pop()
        for extra in ("", *wanted.extras):
            if (key := (plain(wanted.name), extra)) in found or key[0] not in uses:
                continue
            found.add(key)
            left += [one for one in uses[key[0]] if one.marker is None or one.marker.evaluate({"extra": extra})]
    return {name for name, _ in found} - {plain(project["name"])}


@cache
def installed() -> dict[str, list[Requirement]]:
    """What every package of our environment requires."""
    folder = output_of([str(OURS), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
    found = distributions(path=[folder])
    return {plain(one.name): [Requirement(text) for text in one.requires or []] for one in found}


def our_project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def our_version() -> str:
    """From the one file that has it; read, since these tools run where accord is not installed."""
    text = (ROOT / "src" / "accord" / "version.py").read_text(encoding="utf-8")
    return re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0]


def licences() -> list[tuple[str, str, str]]:
    """Name, version and licence of every package we need; one that is not on the list is an error."""
    project = our_project()
    ours = needed(project, project["optional-dependencies"])
    rows = json.loads(output_of([tool("pip-licenses"), "--python", str(OURS), "--format", "json", "--with-system"]))
    return judged((row["Name"], row["Version"], row["License"]) for row in rows if plain(row["Name"]) in ours)


def judged(packages: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    listed, bad = [], []
    for name, version, said in sorted(packages, key=lambda package: package[0].lower()):
        licence = LOOKED_UP[plain(name)][0] if said == "UNKNOWN" and plain(name) in LOOKED_UP else spdx(said)
        listed.append((name, version, licence))
        if any(part not in PERMISSIVE | BY_FILE for part in parts_of(licence)):
            bad.append(f"{name} ({licence})")
    if bad:
        raise Trouble(f"not on our list of licences: {', '.join(bad)}; look at it, and add it or do without.")
    return listed


def spdx(said: str) -> str:
    return " AND ".join(NAMES.get(part.strip(), part.strip()) for part in said.split(";"))


def parts_of(licence: str) -> list[str]:
    """Every licence that an expression names: with OR, too, we want to be free to take either."""
    return [part.strip(" ()") for part in re.split(r" AND | OR ", licence)]


def vulnerabilities(url: str | None = None, pins: Path = ROOT / "constraints.txt") -> tuple[int, list[str]]:
    """How many pinned versions were looked up, and what is known of them; an error where they could not be."""
    command = [tool("pip-audit"), "--requirement", str(pins), "--no-deps", "--disable-pip", "--format", "json"]
    command += ["--progress-spinner", "off", "--vulnerability-service", "osv", *(["--osv-url", url] if url else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except ValueError:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        why = re.findall(r"Failed to [^(\"]+", said) or [said[:200]]
        raise Trouble(
            f"the vulnerability service could not be asked, so nothing was checked ({why[0].strip()}).", 3
        ) from None
    unknown = [one["name"] for one in found if "skip_reason" in one]
    if unknown:
        raise Trouble(f"{len(unknown)} of {len(found)} versions could not be looked up: {', '.join(unknown)}", 3)
    known = [
        f"{one['name']} {one['version']}: {flaw['id']}, fixed in {', '.join(flaw['fix_versions']) or 'no version'}"
        for one in found
        for flaw in one["vulns"]
    ]
    return len(found), known


# --- all of it


def campaign() -> tuple[Found, list[str]]:
    troubles = []
    with tempfile.TemporaryDirectory() as name:
        commit = git("rev-parse", "HEAD")
        first, second = (dist(Path(name) / folder, commit) for folder in ("one", "two"))
        made = sbom(Path(name))
        check_sbom(made)
        listed = json.loads(made.read_text(encoding="utf-8"))["components"]
    built = [(file, f"`{sums[:16]}…`", f"`{second[file][:16]}…`") for file, sums in first.items()]
    troubles += [f"{file} has other bytes when it is built again" for file in first if first[file] != second[file]]
    packages = licences()
    kinds = Counter(licence for *_, licence in packages)
    scopes = Counter(part["scope"] for part in listed)
    try:
        number, known = vulnerabilities()
        said = f"{number} pinned versions looked up, {len(known)} known vulnerabilities"
        troubles += known
    except Trouble as trouble:
        if trouble.code != 3:
            raise
        said = f"**not checked**: {trouble}"
    unpinned = not_pinned()
    troubles += [f"{name} is needed and not pinned in constraints.txt" for name in unpinned]
    found = Found(
        "What we build and what we build on",
        [
            "`python stress/supply.py` (its parts: `make dist`, `make sbom`, `make licences`, `make audit-deps`):",
            "the last commit is built twice, in folders of their own, and the files compared.",
        ],
        [
            Table("Built twice", ("file", "sha256", "built again"), built),
            Table("Components, by the SBOM (CycloneDX)", ("", "packages"), [
                ("every user gets", scopes["required"]), ("by choice, with an extra", scopes["optional"]),
                ("only for development", scopes["excluded"]), ("not pinned in constraints.txt", len(unpinned)),
            ]),
            Table("Licences", ("licence", "packages"), [(text, count) for text, count in kinds.most_common()]),
            Table("Known vulnerabilities", ("asked", "result"), [("OSV, by pip-audit", said)]),
        ],
    )  # fmt: skip
    return found, troubles


def not_pinned() -> list[str]:
    """What we need and constraints.txt does not pin. Torch's build for CUDA names its libraries' versions itself."""
    project = our_project()
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {plain(line) for line in lines if "==" in line and not line.startswith("#")}
    ours = needed(project, project["optional-dependencies"]) - {"setuptools", "triton"}  # pip and torch bring these
    return sorted(name for name in ours - pinned if not name.startswith(("nvidia-", "cuda-")))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("part", nargs="?", choices=("dist", "sbom", "licences", "vulnerabilities"))
    part = options.parse_args().part
    try:
        if part == "dist":
            print("\n".join(f"{sums}  dist/{file}" for file, sums in dist().items()))
        elif part == "sbom":
            print(f"dist/{sbom().name}")
        elif part == "licences":
            print("\n".join(f"{name} {version}: {licence}" for name, version, licence in licences()))
        elif part == "vulnerabilities":
            number, known = vulnerabilities()
            print("\n".join([*known, f"{number} pinned versions looked up, {len(known)} known vulnerabilities"]))
            return 1 if known else 0
        else:
            found, troubles = campaign()
            print("\n\n".join(table_as_text(table) for table in found.tables))
            found.write("supply")
            for trouble in troubles:
                print(f"trouble: {trouble}", file=sys.stderr)
            return 1 if troubles else 0
    except Trouble as trouble:
        print(f"supply: {trouble}", file=sys.stderr)
        return trouble.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
