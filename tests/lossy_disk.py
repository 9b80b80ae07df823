"""A disk that loses what was not synced: a recording of what was done to a folder, and what a power failure leaves."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

Names = dict[str, int]  # a name in the folder -> the file behind it
MOST_PENDING = 6  # changes of names between two syncs, of which any may be lost


class Recording:
    """The steps, in order: contents that were synced, names that changed, names that were synced."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: list[tuple[str, object, object]] = []
        self.before: Names = {path.name: path.stat().st_ino for path in folder.iterdir() if path.is_file()}
        self.contents = {path.stat().st_ino: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    def left_behind(self) -> Iterator[tuple[int, dict[str, bytes]]]:
        """For every prefix of the steps, and any part of the changes of names that were not synced yet, the files that
        are there afterwards; a file whose content was not synced is empty."""
        for length in range(len(self.steps) + 1):
            names, contents, pending = dict(self.before), dict(self.contents), []
            for kind, one, other in self.steps[:length]:
                if kind == "content":
                    contents[one] = other
                elif kind == "name":
                    pending.append((one, other))
                else:
                    names, pending = _changed(names, pending), []
            assert len(pending) <= MOST_PENDING
            for kept in itertools.product((False, True), repeat=len(pending)):
                chosen = [change for change, keep in zip(pending, kept, strict=True) if keep]
                found = _changed(names, chosen)
                yield length, {name: contents.get(file, b"") for name, file in found.items()}


def _changed(names: Names, changes: list[tuple[object, object]]) -> Names:
    names = dict(names)
    for name, file in changes:
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file
    return names


@contextmanager
def recorded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    """Records what is done to the files right in a folder. Names elsewhere, as of temporary ones, do not matter."""
    found = Recording(folder)
    sync, replace, unlink = os.fsync, os.replace, os.unlink

    def fsync(handle: int) -> None:
        sync(handle)
        place = Path(f"/proc/self/fd/{handle}").resolve()
        if place == folder.resolve():
            found.steps.append(("names", None, None))
        elif place.is_file():
            found.steps.append(("content", place.stat().st_ino, place.read_bytes()))

    def watched(change: Callable[..., None], source: Path, *target: Path) -> None:
        file = Path(source).stat().st_ino if target else None
        change(source, *target)
        place = Path(target[0] if target else source)
        if place.parent == folder and not place.name.endswith(".part"):
            found.steps.append(("name", place.name, file))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        patch.setattr(os, "replace", lambda source, target: watched(replace, source, target))
        patch.setattr(os, "unlink", lambda path: watched(unlink, path) if Path(path).exists() else unlink(path))
        yield found
