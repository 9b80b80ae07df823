"""The snapshot that answers requests now, and how it is replaced."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from accord.errors import InputError
from accord.serve.meters import Meters
from accord.serve.snapshots import Snapshot, identity_of

WATCH_SECONDS = 1.0
RETRY_SECONDS = 60.0  # after which a run that could not be loaded is tried again
log = logging.getLogger("accord.serve")


class Holder:
    """A request reads `snapshot` once and uses it to its end, so replacing it is one assignment."""

    def __init__(self, folder: Path, meters: Meters, audit: Path | None = None, allow_imports: bool = False) -> None:
        self.folder, self.meters, self._audit, self._allow_imports = folder, meters, audit, allow_imports
        self._lock = asyncio.Lock()
        self.snapshot = self._load()
        self.meters.loaded.set(self.snapshot.loaded_at)

    def _load(self) -> Snapshot:
        return Snapshot.load(self.folder, self._audit, self._allow_imports)

    @property
    def is_reloading(self) -> bool:
        return self._lock.locked()

    async def reload(self) -> bool:
        """Read the folder again, in a thread; if that fails, the old snapshot stays and the log says why."""
        async with self._lock:
            try:
                snapshot = await asyncio.to_thread(self._load)
            except Exception as error:
                reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
                log.error("reload failed, still serving the old run: %s", reason)
                self.meters.reloads.labels("failed").inc()
                return False
            self.snapshot = snapshot
        self.meters.reloads.labels("done").inc()
        self.meters.loaded.set(snapshot.loaded_at)
        log.info("reloaded %s: %s, %s + %s", self.folder, *(snapshot.about[n] for n in ("dataset", "model", "method")))
        return True

    async def watch(self) -> None:
        """Reload when the folder holds another run and is no longer being written to.

        A run that cannot be loaded is tried again later: the process may only have been short of memory or open files.
        """
        before, tried, retry_at = self.snapshot.identity, None, 0.0
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            identity = identity_of(self.folder)
            is_new = identity is not None and identity == before and identity != self.snapshot.identity
            if is_new and (identity != tried or time.monotonic() >= retry_at):
                tried = identity
                if not await self.reload():
                    retry_at = time.monotonic() + RETRY_SECONDS
            before = identity
