"""Object stores (s3://, gs://): what a URI names is copied by pyarrow's file systems, and read as files are."""

from __future__ import annotations

import fnmatch
import glob
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from accord.data.databases import without_password
from accord.errors import InputError

SCHEMES = ("s3://", "gs://", "gcs://")
LONGEST_REASON = 300
GOOGLE_GIVES_UP = "retry_limit_seconds=30"  # without it, a missing right is asked for again for a quarter of an hour


def is_object(source: Any) -> bool:
    return isinstance(source, str) and source.startswith(SCHEMES)


def name_of(uri: str) -> str:
    """What to call the data of a URI."""
    parts = [part for part in PurePosixPath(uri.partition("?")[0]).parts[1:] if not glob.has_magic(part)]
    return parts[-1].split(".")[0] if parts else "data"


class Fetched:
    """Files that were copied from an object store. They are removed when nobody holds this any more."""

    def __init__(self, uri: str) -> None:
        self.label = without_password(uri)
        self.folder = tempfile.TemporaryDirectory(prefix="accord-")
        try:
            self.paths = list(self._copied(uri))
        except (pa.ArrowException, OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            reason = " ".join(without_password(str(error)).split())[:LONGEST_REASON].rstrip(".")
            raise InputError(f"{self.label} cannot be fetched ({reason}); check the address and your rights.") from None

    def _copied(self, uri: str) -> Iterator[Path]:
        """The file of the URI, the files that match its pattern, or the folder."""
        from pyarrow import fs

        scheme, _, rest = uri.partition("://")
        if scheme != "s3" and "retry_limit_seconds" not in rest:
            rest += ("&" if "?" in rest else "?") + GOOGLE_GIVES_UP
        address, mark, options = rest.partition("?")
        fixed = address  # a pattern is no part of an address
        while glob.has_magic(fixed):
            fixed = fixed.rpartition("/")[0]
        store, base = fs.FileSystem.from_uri(f"{'gs' if scheme != 's3' else scheme}://{fixed}{mark}{options}")
        found = store.get_file_info(base)
        if found.type == fs.FileType.NotFound:
            raise InputError(f"{self.label} is not there; check the address.")
        if found.type == fs.FileType.File:
            yield self._copy(store, base, PurePosixPath(base).name)
            return
        inside = store.get_file_info(fs.FileSelector(base, recursive=True))
        pattern = base + address[len(fixed) :]
        wanted = [
            one.path
            for one in inside
            if one.is_file
            and (fixed == address or fnmatch.fnmatchcase(one.path, pattern))
            and _is_shown(one.path, base)
        ]
        if not wanted:
            raise InputError(f"no file matches {self.label}; check the address.")
        copied = [self._copy(store, path, str(PurePosixPath(path).relative_to(base))) for path in sorted(wanted)]
        yield from [Path(self.folder.name) / "files"] if fixed == address else copied

    def _copy(self, store: Any, path: str, name: str) -> Path:
        from pyarrow import fs

        target = Path(self.folder.name) / "files" / name
        if not target.resolve().is_relative_to(Path(self.folder.name).resolve()):
            raise InputError(f"{self.label} holds a name that leads out of it; rename it.")
        target.parent.mkdir(parents=True, exist_ok=True)
        fs.copy_files(path, str(target), source_filesystem=store, destination_filesystem=fs.LocalFileSystem())
        return target


def _is_shown(path: str, base: str) -> bool:
    """Not what Spark and others write beside a table: _SUCCESS, .crc files."""
    return not any(part.startswith(("_", ".")) for part in PurePosixPath(path).relative_to(base).parts)
