"""`accord serve`: a run over HTTP."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from typer import Option

from accord.cli.options import AllowImports, NewItemsFile, RunArgument
from accord.errors import InputError


def serve(
    run: RunArgument,
    host: Annotated[str, Option(help="address to listen on; one that others can reach needs a token")] = ("127.0.0.1"),
    port: Annotated[int, Option(help="port to listen on; 0 takes a free one")] = 8000,
    token: Annotated[
        str | None, Option(envvar="ACCORD_TOKEN", help="what clients must send as 'Authorization: Bearer TOKEN'")
    ] = None,
    watch: Annotated[bool, Option("--watch", help="reload when a new run is written to the folder")] = False,
    refusals: Annotated[Path | None, Option(help="file to store refusals in, for later servers and trainings")] = None,
    items: NewItemsFile = None,
    log_requests: Annotated[bool, Option("--log-requests", help="print every request, with the ids in it")] = False,
    allow_imports: AllowImports = False,
) -> None:
    """Serve a run over HTTP: an API with its description at /docs, and a page at /."""
    if any(find_spec(name) is None for name in ("fastapi", "uvicorn", "prometheus_client")):
        raise InputError(
            "the server needs libraries that are not installed; install them: pip install 'accord[serve]'."
        )
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise InputError("--token must be visible ASCII characters, at least one.")
    from accord.serve.server import serve as run_server

    raise SystemExit(run_server(run, host, port, token, watch, log_requests, allow_imports, refusals, items))
