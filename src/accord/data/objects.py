"""Object stores (s3://, gs://): what a URI names is copied by pyarrow's file systems, and read as files are."""

from __future__ import annotations

import fnmatch
import glob
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from accord.data.databases import short_reason, without_password
from accord.errors import InputError

SCHEMES = ("s3://", "gs://", "gcs://")
GOOGLE_TIMEOUT = "retry_limit_seconds=30"  # without it, pyarrow retries for 15 minutes where rights are missing


def is_object(source: Any) -> bool:
    return isinstance(source, str) and source.startswith(SCHEMES)


def name_of(uri: str) -> str:
    parts = [part for part in PurePosixPath(uri.partition("?")[0]).parts[1:] if not glob.has_magic(part)]
    return parts[-1].split(".")[0] if parts else "data"


class FetchedFiles:
    """Files that were copied from an object store. They are removed when this is garbage-collected."""

    def __init__(self, uri: str) -> None:
        self.label = without_password(uri)
        self._temporary = tempfile.TemporaryDirectory(prefix="accord-")
        self._folder = Path(self._temporary.name) / "files"
        try:
            self.paths = self._fetch(uri)
        except (pa.ArrowException, OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            reason = short_reason(error)
            raise InputError(f"{self.label} cannot be fetched ({reason}); check the address and your rights.") from None

    def _fetch(self, uri: str) -> list[Path]:
        """The file of the URI, the files that match its pattern, or the folder."""
        from pyarrow import fs

        scheme, _, rest = uri.partition("://")
        if scheme != "s3" and "retry_limit_seconds" not in rest:
            rest += ("&" if "?" in rest else "?") + GOOGLE_TIMEOUT
        address, mark, options = rest.partition("?")
        folder = address
        while glob.has_magic(folder):  # a pattern is no part of an address
            folder = folder.rpartition("/")[0]
        store, base = fs.FileSystem.from_uri(f"{'s3' if scheme == 's3' else 'gs'}://{folder}{mark}{options}")
        info = store.get_file_info(base)
        if info.type == fs.FileType.NotFound:
            raise InputError(f"{self.label} is not there; check the address.")
        if info.type == fs.FileType.File:
            return [self._copy(store, base, PurePosixPath(base).name)]
        pattern = base + (address[len(folder) :] or "*")
        inside = [one.path for one in store.get_file_info(fs.FileSelector(base, recursive=True)) if one.is_file]
        names = {path: PurePosixPath(path).relative_to(base) for path in inside if fnmatch.fnmatchcase(path, pattern)}
        # not what Spark and others write next to a table: _SUCCESS, .crc files
        wanted = {path: name for path, name in names.items() if not any(p.startswith(("_", ".")) for p in name.parts)}
        if not wanted:
            raise InputError(f"no file matches {self.label}; check the address.")
        copies = [self._copy(store, path, str(name)) for path, name in sorted(wanted.items())]
        return [self._folder] if folder == address else copies

    def _copy(self, store: Any, path: str, name: str) -> Path:
        from pyarrow import fs

        target = self._folder / name
        if not target.resolve().is_relative_to(self._folder.resolve()):
            raise InputError(f"{self.label} holds a name that leads out of it; rename it.")
        target.parent.mkdir(parents=True, exist_ok=True)
        fs.copy_files(path, str(target), source_filesystem=store, destination_filesystem=fs.LocalFileSystem())
        return target
