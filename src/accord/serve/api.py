"""The HTTP API and the web page, as one ASGI application."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from accord.errors import InputError
from accord.serve import schemas as s
from accord.serve.guard import ApiError, Guard, Rules, overloaded
from accord.serve.snapshots import Holder

STATIC = Path(__file__).parent / "static"
DESCRIPTION = """Recommendations from a run folder. Ids are those of the training data. Errors have the body
`{"error": {"code": …, "message": …}}`; programs can rely on the code."""
ERRORS: dict[int | str, dict[str, Any]] = {
    422: {"model": s.Error, "description": "the request is not valid"},
    "4XX": {"model": s.Error, "description": "the request cannot be answered"},
    "5XX": {"model": s.Error, "description": "not possible now"},
}


def as_json(content: Any) -> Response:
    """JSON has no NaN and no infinity: they become null. Only tests check answers against their description."""
    return Response(to_json(content, inf_nan_mode="null"), media_type="application/json")


async def reject_unknown_parameters(request: Request) -> None:
    """A parameter that does not exist is an error, so that a misspelt one is not silently ignored."""
    route = request.scope["route"]
    names = sorted(field.alias for field in route.dependant.query_params)
    for name in request.query_params:
        if name not in names and route.include_in_schema:  # pages accept any
            raise ApiError(422, "invalid", f"there is no parameter {name!r}; use {', '.join(names) or 'none'}.")


async def answer_error(_: Request, error: Exception) -> Response:
    if isinstance(error, ApiError):
        return error.response
    if isinstance(error, RequestValidationError):
        return ApiError(422, "invalid", s.explain_invalid(error.errors()[0])).response
    if isinstance(error, HTTPException):
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")
        return ApiError(error.status_code, code, str(error.detail), error.headers).response
    return ApiError(409, "wrong_where", str(error)).response  # a condition that does not fit the items of the run


def make_app(holder: Holder, rules: Rules, watch: bool = False) -> FastAPI:
    """The API and the page; with `watch` it reloads when the folder changes."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(holder.watch())] if watch else []
            yield
            for task in watching:
                task.cancel()

    app = FastAPI(
        title="Accord", version="1", description=DESCRIPTION, docs_url=None, redoc_url=None, lifespan=lifespan,
        exception_handlers=dict.fromkeys((HTTPException, RequestValidationError, InputError), answer_error),
        responses=ERRORS, dependencies=[Depends(reject_unknown_parameters)], redirect_slashes=False,
    )  # fmt: skip
    app.add_middleware(Guard, rules=rules, meters=holder.meters)
    _add_pages(app)
    _add_lists(app, holder)
    _add_lookups(app, holder)
    _add_operations(app, holder)
    return app


def _add_lists(app: FastAPI, holder: Holder) -> None:
    turn = asyncio.Lock()  # requests for many lists are answered one by one: together they only need more memory

    @app.get("/v1/recommendations", response_model=s.Recommendations)
    async def recommendations(
        user: s.UserParameter,
        k: s.K = 20,
        exclude: s.Exclude = (),
        allow: s.Allow = (),
        where: s.Where = (),
        why: s.Why = False,
    ) -> Response:
        """The best unseen items of a user. An unknown user gets the popular items, and the answer says so."""
        now, refused = holder.snapshot, holder.refusals.of(user)
        return as_json(now.recommend(user, k, now.barred([*exclude, *refused], allow or None, where), why))

    @app.post("/v1/recommendations", response_model=s.ManyRecommendations)
    async def recommendations_for_users(request: s.UsersRequest) -> Response:
        """The recommendations for many users, in the order of the request."""
        now, lists = holder.snapshot, []
        barred = now.barred(request.exclude, request.allow, request.where)
        async with turn:
            for user in request.users:
                await asyncio.sleep(0)  # other requests get their turn
                refused = holder.refusals.of(user)
                own = now.barred([*request.exclude, *refused], request.allow, request.where) if refused else barred
                lists.append(as_json(now.recommend(user, request.k, own, request.why)).body)
        return Response(b'{"lists":[' + b",".join(lists) + b"]}", media_type="application/json")

    @app.post("/v1/recommendations/history", response_model=s.HistoryRecommendations)
    async def recommendations_for_history(request: s.HistoryRequest) -> Response:
        """Recommendations for a new user, from a history alone. Its items are not recommended again."""
        now = holder.snapshot
        barred = now.barred(request.exclude, request.allow, request.where)
        return as_json(now.from_history(request.history, request.k, barred, request.why))

    @app.post("/v1/refusals", response_model=s.Refused)
    async def refuse(request: s.Refusal) -> Response:
        """Never recommend an item to a user again."""
        holder.snapshot.item_row(request.item)
        holder.refusals.add(request.user, request.item)
        return as_json({**request.model_dump(), "kept": holder.refusals.file is not None})


def _add_lookups(app: FastAPI, holder: Holder) -> None:
    @app.get("/v1/similar", response_model=s.SimilarItems)
    async def similar_items(
        item: s.ItemParameter, k: s.K = 20, exclude: s.Exclude = (), allow: s.Allow = (), where: s.Where = ()
    ) -> Response:
        """The items that are most similar to an item, according to the model."""
        now = holder.snapshot
        return as_json(now.similar(item, k, now.barred(exclude, allow or None, where)))

    @app.get("/v1/scores", response_model=s.OfUser[s.ScoredItem])
    async def scores(user: s.UserParameter, items: s.Items) -> Response:
        """The scores that rank items for a user; comparable within a user."""
        return as_json(holder.snapshot.scores(user, items))

    @app.get("/v1/why", response_model=s.OfUser[s.ExplainedItem])
    async def why(user: s.UserParameter, items: s.Items) -> Response:
        """The items of a user's history that speak for the given items."""
        return as_json(holder.snapshot.why(user, items))

    @app.get("/v1/history", response_model=s.OfUser[s.HistoryItem])
    async def history(user: s.UserParameter) -> Response:
        """The items of a user, with the probability that each was a real preference."""
        return as_json(holder.snapshot.history(user))

    @app.get("/v1/items", response_model=s.Listed[s.CountedItem])
    async def find_items(q: s.Words = "", limit: s.Limit = 20) -> Response:
        """Search for items by words of their title or id."""
        return as_json(holder.snapshot.find_items(q, limit))

    @app.get("/v1/users", response_model=s.Users)
    async def find_users(q: s.Words = "", limit: s.Limit = 20) -> Response:
        """Search for users by a part of their id."""
        return as_json(holder.snapshot.find_users(q, limit))

    @app.get("/v1/about", response_model=s.About)
    async def about() -> Response:
        """The run that is served."""
        return as_json(holder.snapshot.about)


def _add_operations(app: FastAPI, holder: Holder) -> None:
    @app.get("/healthz", response_model=dict[str, str])
    async def healthz() -> Response:
        """The process is alive."""
        return as_json({"status": "ok"})

    @app.get("/readyz", response_model=dict[str, str])
    async def readyz() -> Response:
        """A run is loaded and requests are answered."""
        return as_json({"status": "ready"})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Metrics for Prometheus."""
        return Response(generate_latest(holder.meters.registry), media_type=CONTENT_TYPE_LATEST)

    @app.post("/reload", response_model=s.About)
    async def reload() -> Response:
        """Read the run folder again. The old run answers meanwhile, and stays if the folder cannot be read."""
        if holder.is_reloading:  # each reads the complete run, so they must not pile up
            raise overloaded("reloading", "the run folder is already being read; try again in a second.")
        if not await holder.reload():
            message = "the run folder could not be read, so the old run is still served; the server's log says why."
            raise ApiError(409, "reload_failed", message)
        return as_json(holder.snapshot.about)


def _add_pages(app: FastAPI) -> None:
    mimetypes.add_type("text/javascript", ".js")  # some systems call it text/plain, which browsers do not run
    app.mount("/static", StaticFiles(directory=STATIC))

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return FileResponse(STATIC / "index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return FileResponse(STATIC / "docs.html")
