"""Writing files whole or not at all, and reading them without trusting them."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from accord.errors import Argument, InputError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

UNFINISHED = ".part"  # suffix of files that are still being written


def make_folder(folder: Path) -> None:
    """The folder, and those that it lies in; an error names the file that is in the way."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        file = next(place for place in (folder, *folder.parents) if place.exists())
        raise InputError(f"{file} is a file, so {folder} cannot be a folder; give another place.") from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that replaces it when the block ends without an error."""
    make_folder(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=UNFINISHED)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    except OSError as error:
        if error.filename is None or error.filename == name:  # a full disk is reported without the name of the file
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk before anything else is done: a power failure keeps them."""
    if path.is_dir() and os.name == "nt":  # where folders cannot be opened
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def staged(folder: Path, last: str) -> Iterator[Path]:
    """A temporary folder whose files move into `folder` when the block ends without an error, `last` after the others.
    A folder without `last` is incomplete: it is removed before the first file moves. Each of these steps is on the disk
    before the next begins, so that a power failure too leaves the old files, the new ones, or no `last`."""
    make_folder(folder)
    place = Path(tempfile.mkdtemp(dir=folder, prefix=".", suffix=UNFINISHED))
    try:
        sync(folder.parent)
        yield place
        (folder / last).unlink(missing_ok=True)
        sync(folder)
        for path in sorted(place.iterdir()):
            if path.name != last:
                path.replace(folder / path.name)
        sync(folder)
        (place / last).replace(folder / last)
        sync(folder)
    except OSError as error:
        if error.filename is None:
            error.filename = str(folder)
        elif Path(error.filename).parent == place:
            error.filename = str(folder / Path(error.filename).name)
        raise
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def only_writer(folder: Path | None) -> Iterator[None]:
    """Lock a folder against other processes: two trainings would mix their files. Leftovers of killed ones are removed.
    The lock ends with the process, however that ends."""
    if folder is None or fcntl is None:
        yield
        return
    make_folder(folder)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{folder} is being written by another process; wait for it, or give another ", Argument("out"), "."
            ) from None
        except OSError:  # a file system without locks
            pass
        for left in folder.glob(f".*{UNFINISHED}"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        yield
    finally:
        os.close(handle)
        with suppress(OSError):  # it is not empty
            folder.rmdir()


def write_json(path: Path, content: Any) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n")


def file_inside(path: Path) -> Path:
    """A file of a run folder: it exists, is a regular file, and is not a link out of the folder."""
    if not path.is_file():
        raise InputError(f"{path} is missing, so its folder is incomplete; copy or make the whole folder again.")
    if path.resolve().parent != path.parent.resolve():
        raise InputError(f"{path} is a link that leads out of its folder; put the file itself there.")
    return path


def read_json(path: Path) -> Any:
    try:
        return parsed(file_inside(path).read_bytes().decode())
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is damaged ({error}); train again.") from None


def parsed(text: str) -> Any:
    """JSON whose text can be written again: half of a surrogate pair is no character."""
    content = json.loads(text)
    if "\\u" in text:
        json.dumps(content, ensure_ascii=False).encode()
    return content
