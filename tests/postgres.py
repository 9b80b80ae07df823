"""A PostgreSQL server of Debian's packages for a test, on a socket in a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USER, PASSWORD = "accord", "geheim/9@7"


def programs() -> Path | None:
    """The folder of initdb and pg_ctl; None where PostgreSQL is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@contextmanager
def server(bin_folder: Path) -> Iterator[str]:
    """The URI of a server that asks for a password; it is not in the URI."""
    folder = Path(tempfile.mkdtemp(prefix="accord-pg-", dir="/tmp"))
    owner = {}
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        account = pwd.getpwnam("postgres")
        owner = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        os.chown(folder, account.pw_uid, account.pw_gid)

    def run(*words: str) -> None:
        subprocess.run(words, check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=60, **owner)  # type: ignore[call-overload]

    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o644)
    data = str(folder / "data")
    try:
        run(
            *(str(bin_folder / "initdb"), "-D", data, "-U", USER, "-A", "scram-sha-256", "--no-sync", "-E", "UTF8"),
            *("--locale", "C", "--pwfile", str(folder / "password")),
        )
        control = [str(bin_folder / "pg_ctl"), "-D", data, "-w", "-l", str(folder / "log")]
        run(*control, "-o", f"-k {folder} -c listen_addresses='' -c fsync=off", "start")
        try:
            yield f"postgresql://{USER}@/postgres?host={folder}"
        finally:
            run(*control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
