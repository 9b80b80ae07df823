"""The snapshot that answers now, and how it is replaced."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from accord.errors import InputError
from accord.serve.meters import Meters
from accord.serve.snapshots import Snapshot, identity_of

WATCH_SECONDS = 1.0
AGAIN_SECONDS = 60.0  # after which a run that could not be loaded is tried again
log = logging.getLogger("accord.serve")


class Holder:
    """A request takes `snapshot` once and keeps it until it ends, so replacing it is one assignment."""

    def __init__(self, folder: Path, meters: Meters, audit: Path | None = None, allow_imports: bool = False) -> None:
        self.folder, self.meters, self._audit, self._allow_imports = folder, meters, audit, allow_imports
        self._turn = asyncio.Lock()
        self.snapshot = self._load()
        self.meters.loaded.set(self.snapshot.loaded_at)

    def _load(self) -> Snapshot:
        return Snapshot.load(self.folder, self._audit, self._allow_imports)

    @property
    def is_reloading(self) -> bool:
        return self._turn.locked()

    async def reload(self) -> bool:
        """Read the folder again, in a thread; if that fails, the old snapshot stays and the log says why."""
        async with self._turn:
            try:
                snapshot = await asyncio.to_thread(self._load)
            except Exception as error:
                reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
                log.error("reload failed, the old run is kept: %s", reason)
                self.meters.reloads.labels("failed").inc()
                return False
            self.snapshot = snapshot
        self.meters.reloads.labels("done").inc()
        self.meters.loaded.set(snapshot.loaded_at)
        log.info("reloaded %s: %s, %s + %s", self.folder, *(snapshot.about[n] for n in ("dataset", "model", "method")))
        return True

    async def watch(self) -> None:
        """Reload when there is another run in the folder that is no longer written to.

        One that cannot be loaded is tried again later: memory or open files may have been short only then.
        """
        before, tried, again = self.snapshot.identity, None, 0.0
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            identity = identity_of(self.folder)
            another = identity is not None and identity == before and identity != self.snapshot.identity
            if another and (identity != tried or time.monotonic() >= again):
                tried = identity
                if not await self.reload():
                    again = time.monotonic() + AGAIN_SECONDS
            before = identity
