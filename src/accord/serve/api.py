"""The HTTP API and the web page, as one ASGI application."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from importlib import resources
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from accord.errors import InputError
from accord.serve import schemas as s
from accord.serve.errors import ApiError, internal, overloaded
from accord.serve.guard import App, Guard, Rules
from accord.serve.holder import Holder
from accord.serve.snapshots import Snapshot

KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
ITEMS_AT_ONCE = 160  # in lists that are made before other requests get their turn
DESCRIPTION = """Recommendations from a run folder. Ids are those of the training data. Errors have the body
`{"error": {"code": …, "message": …}}`, where the code is for programs and stays the same."""

User = Annotated[str, Query(max_length=s.MOST_CHARACTERS, description="a user's id")]
ItemId = Annotated[str, Query(max_length=s.MOST_CHARACTERS, description="an item's id")]
K = Annotated[int, Query(ge=1, le=s.MOST_K, description="items in the list")]
Items = Annotated[
    Sequence[str], Query(alias="item", min_length=1, max_length=s.MOST_K, description="an item's id; may be repeated")
]
Why = Annotated[bool, Query(description="name the items of the history that speak for each item")]
Exclude = Annotated[Sequence[str], Query(max_length=s.MOST_K, description="an item to leave out; may be repeated")]
Allow = Annotated[
    Sequence[str], Query(max_length=s.MOST_K, description="an item to choose from, and no others; may be repeated")
]
Where = Annotated[
    Sequence[s.Condition],
    Query(max_length=s.MOST_CONDITIONS, description="what must hold of an item, as genre=drama; may be repeated"),
]
Text = Annotated[str, Query(max_length=200, description="words of the id or title; empty: the most frequent")]
Limit = Annotated[int, Query(ge=1, le=200)]
OptionalUser = Annotated[str, Query(max_length=s.MOST_CHARACTERS, description="only of this user")]
OptionalItem = Annotated[str, Query(max_length=s.MOST_CHARACTERS, description="only of this item")]


def encoded(content: Any) -> bytes:
    """JSON has no NaN and no infinity: they are null."""
    try:
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        return json.dumps(_finite(content), separators=(",", ":"), allow_nan=False).encode()


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def as_json(content: Any) -> Response:
    """Tests check answers against the description; that is not done for each answer."""
    return Response(encoded(content), media_type="application/json")


async def only_known_parameters(request: Request) -> None:
    """A parameter that does not exist is an error, so that a misspelt one is not silently ignored."""
    route = request.scope["route"]
    known = {field.alias for field in route.dependant.query_params}
    for name in request.query_params:
        if name not in known and route.include_in_schema:  # pages accept any
            raise ApiError(422, "invalid", f"there is no parameter {name!r}; known: {', '.join(sorted(known))}.")


def make_app(holder: Holder, rules: Rules, watch: bool = False) -> App:
    """The whole application; `watch` reloads by itself when the folder changes."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(holder.watch()) if watch else None
        yield
        if watching is not None:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    texts: dict[int | str, str] = {422: "the request is not valid", "4XX": "cannot be done", "5XX": "not possible now"}
    problems: dict[int | str, dict[str, Any]] = {
        status: {"model": s.Error, "description": text} for status, text in texts.items()
    }
    app = FastAPI(
        title="Accord", version="1", description=DESCRIPTION, docs_url=None, redoc_url=None, lifespan=life,
        responses=problems, dependencies=[Depends(only_known_parameters)], redirect_slashes=False,
    )  # fmt: skip
    _add_errors(app)
    _add_pages(app)
    _add_lists(app, holder)
    _add_lookups(app, holder)
    _add_audit(app, holder)
    _add_operations(app, holder)
    return Guard(app, rules, holder.meters)


def _add_lists(app: FastAPI, holder: Holder) -> None:
    turn = (
        asyncio.Lock()
    )  # requests for many lists are answered one by one: at the same time they would only need more memory

    @app.get("/v1/recommendations", response_model=s.Recommendations)
    async def recommendations(
        user: User, k: K = 20, exclude: Exclude = (), allow: Allow = (), where: Where = (), why: Why = False
    ) -> Response:
        """The best unseen items of a user. An unknown user gets the popular items, and the answer says so."""
        now = holder.snapshot
        return as_json(now.recommend(user, k, barred(now, exclude, allow or None, where), why))

    @app.post("/v1/recommendations", response_model=s.ManyRecommendations)
    async def recommendations_of_many(asked: s.UsersAsked) -> Response:
        """The recommendations for many users, in the order of the request."""
        now = holder.snapshot
        without = barred(now, asked.exclude, asked.allow, asked.where)
        lists, at_once = [], max(1, ITEMS_AT_ONCE // asked.k)
        async with turn:
            for number, user in enumerate(asked.users):
                if number % at_once == 0:
                    await asyncio.sleep(0)
                lists.append(encoded(now.recommend(user, asked.k, without, asked.why)))
        return Response(b'{"lists":[' + b",".join(lists) + b"]}", media_type="application/json")

    @app.post("/v1/recommendations/history", response_model=s.HistoryRecommendations)
    async def recommendations_for_a_history(asked: s.HistoryAsked) -> Response:
        """Recommendations for a user of whom only a history is known. Its items are not recommended again."""
        now = holder.snapshot
        without = barred(now, asked.exclude, asked.allow, asked.where)
        return as_json(now.from_history(asked.history, asked.k, without, asked.why))


def _add_lookups(app: FastAPI, holder: Holder) -> None:
    @app.get("/v1/history", response_model=s.History)
    async def history(user: User) -> Response:
        """The items of a user, with the probability that each was a real preference."""
        now = holder.snapshot
        return as_json(now.history(user_row(now, user)))

    @app.get("/v1/similar", response_model=s.SimilarItems)
    async def similar_items(
        item: ItemId, k: K = 20, exclude: Exclude = (), allow: Allow = (), where: Where = ()
    ) -> Response:
        """The items that are most similar to an item, according to the model."""
        now = holder.snapshot
        return as_json(now.similar(item_row(now, item), k, barred(now, exclude, allow or None, where)))

    @app.get("/v1/scores", response_model=s.Scores)
    async def scores(user: User, items: Items) -> Response:
        """What the lists of a user rank items by; comparable within a user."""
        now = holder.snapshot
        return as_json(now.scores(user_row(now, user), [item_row(now, item) for item in items]))

    @app.get("/v1/why", response_model=s.Explained)
    async def why(user: User, items: Items) -> Response:
        """The items of a user's history that speak for items."""
        now = holder.snapshot
        return as_json(now.why(user_row(now, user), [item_row(now, item) for item in items]))

    @app.get("/v1/items", response_model=s.FoundItems)
    async def find_items(q: Text = "", limit: Limit = 20) -> Response:
        """Items by words of their title or id."""
        return as_json(holder.snapshot.find_items(q, limit))

    @app.get("/v1/users", response_model=s.FoundUsers)
    async def find_users(q: Text = "", limit: Limit = 20) -> Response:
        """Users by a part of their id."""
        return as_json(holder.snapshot.find_users(q, limit))

    @app.get("/v1/about", response_model=s.About)
    async def about() -> Response:
        """The run that is served."""
        return as_json(holder.snapshot.about)


def _add_audit(app: FastAPI, holder: Holder) -> None:
    def served() -> Snapshot:
        if holder.snapshot.audited is None:
            raise ApiError(404, "no_audit", "no audit is served here; start the server with --audit DIR.")
        return holder.snapshot

    @app.get("/v1/audit", response_model=s.Audit)
    async def audit() -> Response:
        """The summary of the audit."""
        now = served()
        assert now.audited is not None
        return as_json({"summary": now.audited.summary, "titles": now.audit_titles()})

    @app.get("/v1/audit/interactions", response_model=s.AuditedInteractions)
    async def audited_interactions(
        user: OptionalUser = "",
        item: OptionalItem = "",
        surest: Annotated[bool, Query(description="the surest first instead of the noisiest")] = False,
        limit: Limit = 20,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    ) -> Response:
        """Interactions of the log, those that are most probably noise first."""
        now = served()
        wanted = user_row(now, user) if user else None, item_row(now, item) if item else None
        return as_json(now.find_audited(*wanted, surest, limit, offset))


def _add_operations(app: FastAPI, holder: Holder) -> None:
    @app.get("/healthz", response_model=s.Status)
    async def healthz() -> Response:
        """The process is alive."""
        return as_json({"status": "ok"})

    @app.get("/readyz", response_model=s.Status)
    async def readyz() -> Response:
        """A run is loaded and requests are answered."""
        return as_json({"status": "ready"})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Figures for Prometheus."""
        return Response(holder.meters.text(), media_type=CONTENT_TYPE_LATEST)

    @app.post("/reload", response_model=s.About)
    async def reload() -> Response:
        """Read the run folder again. Requests are answered meanwhile; if it cannot be read, the old run is kept."""
        if holder.is_reloading:  # each reads the whole run, so they must not pile up
            raise overloaded("reloading", "the run folder is being read already; try again in a second.")
        if not await holder.reload():
            message = "the run folder could not be read, so the old run is kept; the server's log says more."
            raise ApiError(409, "reload_failed", message)
        return as_json(holder.snapshot.about)


def _add_pages(app: FastAPI) -> None:
    folder = resources.files("accord.serve") / "static"
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    def page(name: str) -> Response:
        if name not in files:
            raise ApiError(404, "not_found", "there is nothing at this path.")
        kind = KINDS[name.rpartition(".")[2]]
        return Response(files[name], media_type=kind, headers={"Cache-Control": "no-cache"})

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return page("index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return page("docs.html")

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        return page(name)


def _add_errors(app: FastAPI) -> None:
    def answer(error: ApiError) -> Response:
        return Response(error.body, error.status, error.headers, "application/json")

    @app.exception_handler(ApiError)
    async def api_error(_: Request, error: ApiError) -> Response:
        return answer(error)

    @app.exception_handler(RequestValidationError)
    async def not_valid(_: Request, error: RequestValidationError) -> Response:
        return answer(ApiError(422, "invalid", s.sentence(error.errors()[0])))

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> Response:
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")
        return answer(ApiError(error.status_code, code, str(error.detail), dict(error.headers or {})))

    @app.exception_handler(Exception)
    async def our_error(_: Request, error: Exception) -> Response:
        return answer(internal())  # and the guard writes it to the log


def barred(snapshot: Snapshot, exclude: Sequence[s.Id], allow: Sequence[s.Id] | None, where: Sequence[str]) -> Any:
    """Marks the items to leave out."""
    try:
        return snapshot.barred(exclude, allow, where)
    except InputError as error:  # a condition on what is not known of the items
        raise ApiError(409, "wrong_where", str(error)) from None


def user_row(snapshot: Snapshot, user: str) -> int:
    row = snapshot.user_rows.get(user)
    if row is None:
        raise ApiError(404, "unknown_user", f"no user {user!r} was in the training data.")
    return row


def item_row(snapshot: Snapshot, item: str) -> int:
    row = snapshot.item_rows.get(item)
    if row is None:
        raise ApiError(404, "unknown_item", f"no item {item!r} was in the training data.")
    return row
