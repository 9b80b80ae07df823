"""Refusals: items that a user does not want, honoured from the request on, and kept where there is a file for them."""

from __future__ import annotations

import csv
import io
import logging
import os
from collections import defaultdict
from collections.abc import Set
from pathlib import Path

from accord.errors import Argument, InputError
from accord.serve.guard import ApiError, overloaded

log = logging.getLogger("accord.serve")
HEADER = ["user", "item", "label"]
MOST = 1_000_000  # so that nobody fills the memory or the disk


class Refusals:
    """Ids are text. The file is one of labels, with a line for each refusal: a training takes it as it is."""

    def __init__(self, file: Path | None = None) -> None:
        self.file, self._items, self._count = file, defaultdict[str, set[str]](set), 0
        if file is not None and file.exists():
            self._read(file)
        elif file is not None:
            self._append(HEADER)

    def _read(self, file: Path) -> None:
        try:
            text = file.read_bytes()
            whole = text[: text.rfind(b"\n") + 1]  # a line that the end of a process cut short was never answered
            lines = csv.reader(io.StringIO(whole.decode("utf-8-sig"), newline=""))
            if next(lines, None) != HEADER:
                raise ValueError("the first line is not user,item,label")
            for user, item, label in lines:
                if float(label or 1) < 0.5:
                    self._add(user, item)
            if len(whole) < len(text):
                os.truncate(file, len(whole))
        except (OSError, ValueError, csv.Error) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise InputError(
                Argument("refusals", file), f" cannot be read as lines of user,item,label ({why}); give another file."
            ) from None

    def _append(self, row: list[str]) -> None:
        assert self.file is not None
        try:
            with self.file.open("a", newline="", encoding="utf-8") as file:
                csv.writer(file, lineterminator="\n").writerow(row)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(
                Argument("refusals", self.file), f" cannot be written ({error.strerror}); give another file."
            ) from None

    def _add(self, user: str, item: str) -> None:
        self._count += item not in self._items[user]
        self._items[user].add(item)

    def __len__(self) -> int:
        return self._count

    def of(self, user: object) -> Set[str]:
        return self._items.get(str(user), frozenset())

    def add(self, user: object, item: object) -> None:
        one, other = str(user), str(item)
        if other in self.of(one):
            return
        if self._count >= MOST:
            raise ApiError(409, "refusals_full", f"{MOST:,} refusals are held; train with them, and start again.")
        if self.file is not None:
            try:
                self._append([one, other, "0"])
            except InputError as error:
                log.error("a refusal could not be written: %s", error)
                raise overloaded("not_kept", "the refusal could not be written; the server's log says why.") from None
        self._add(one, other)
