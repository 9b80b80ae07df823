"""Requests and answers of the API: they check requests, and describe both at /openapi.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar

from fastapi import Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr

from accord.recommender.choice import FORM, PATTERN

MAX_K = 1000
MAX_USERS = 100
MAX_HISTORY = 1000
MAX_LISTED = 10_000  # items to exclude or allow in a body
MAX_CONDITIONS = 20
MAX_CHARACTERS = 1000


def _as_integer(value: Any) -> Any:
    """JSON has one type of number: 5.0 is an integer too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def explain_invalid(problem: Mapping[str, Any]) -> str:
    """One sentence about a request that is not valid: the name of the field as the request has it, and the rule."""
    kind, (part, *place) = problem["type"], problem["loc"]
    if kind == "json_invalid":
        return "the body is not JSON."
    if kind == "extra_forbidden":
        return f"the body has a field {str(place[-1])[:100]!r}, which does not exist."
    names = [str(step) for step in place if part == "query" or isinstance(step, int) or step in FIELDS]
    where = ".".join(names) or "the body"
    if part == "body" and len(names) < len(place):  # the other steps name the kinds of id that were tried
        return f"{where}: give an id, as text of at most {MAX_CHARACTERS} characters or as a whole number."
    if kind == "string_pattern_mismatch":
        return f"{where}: {FORM}."
    rule = str(problem["msg"]).removeprefix("Input should be ")
    return f"{where}: {rule[:1].lower()}{rule[1:]}."


Condition = Annotated[StrictStr, Field(pattern=PATTERN)]
Ids = Sequence[str]
UserParameter = Annotated[str, Query(max_length=MAX_CHARACTERS, description="id of a user")]
ItemParameter = Annotated[str, Query(max_length=MAX_CHARACTERS, description="id of an item")]
Items = Annotated[Ids, Query(alias="item", min_length=1, max_length=MAX_K, description="id of an item; repeatable")]
K = Annotated[int, Query(ge=1, le=MAX_K, description="items in the list")]
Exclude = Annotated[Ids, Query(max_length=MAX_K, description="item to leave out; repeatable")]
Allow = Annotated[Ids, Query(max_length=MAX_K, description="choose only from these items; repeatable")]
Where = Annotated[
    Sequence[Condition],
    Query(max_length=MAX_CONDITIONS, description="condition on the items, such as genre=drama; repeatable"),
]
Why = Annotated[bool, Query(description="name the items of the history that speak for each recommendation")]
Words = Annotated[
    str, Query(max_length=200, description="words of the id or title; empty: the most frequent items, ordinary users")
]
Limit = Annotated[int, Query(ge=1, le=200, description="answers to give")]

Integer = Annotated[StrictInt, BeforeValidator(_as_integer)]
Text = Annotated[StrictStr, Field(max_length=MAX_CHARACTERS)]
Id = Annotated[Integer | Text, Field(description="as in the training data; an integer beyond 2^53 is given as text")]


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid")

    k: Integer = Field(20, ge=1, le=MAX_K, description="items in each list")
    exclude: list[Id] = Field([], max_length=MAX_LISTED, description="items to leave out")
    allow: list[Id] | None = Field(None, max_length=MAX_LISTED, description="choose only from these items")
    where: list[Condition] = Field(
        [], max_length=MAX_CONDITIONS, description="conditions on the items, such as genre=drama"
    )
    why: bool = Field(
        False, strict=True, description="name the items of the history that speak for each recommendation"
    )


class UsersRequest(Options):
    users: list[Id] = Field(min_length=1, max_length=MAX_USERS, description="users to recommend items to")


class HistoryRequest(Options):
    history: list[Id] = Field(max_length=MAX_HISTORY, description="items that the user interacted with, latest last")


class Refusal(BaseModel):
    model_config = ConfigDict(extra="forbid")

    user: Id
    item: Id


FIELDS = {*UsersRequest.model_fields, *HistoryRequest.model_fields, *Refusal.model_fields}

Source = Literal["model", "history", "popularity"]
Entry = TypeVar("Entry")


class Item(BaseModel):
    item: Id
    title: str | None = Field(description="null if the item has none")


class Listed(BaseModel, Generic[Entry]):
    items: list[Entry]


class OfUser(Listed[Entry], Generic[Entry]):
    user: Id


class Reason(Item):
    contribution: float | None = Field(None, description="what it adds to the score, if the score is a sum over items")
    similarity: float | None = Field(None, description="how similar it is, for other models")
    attributes: float | None = Field(None, description="of a new item, the cosine of their attributes")
    shared: str | None = Field(None, description="of a new item, the attributes of both that say most")


class Agreement(BaseModel):
    agree: int = Field(description="members of the consensus that have the item in their top 20")
    of: int = Field(description="number of members")
    places: dict[str, int] = Field(description="rank of the item in each member's list, from 1")


class Recommended(Item):
    rank: int
    score: float
    agreement: Agreement | None = Field(None, description="with why=true, of a consensus, for users of the data")
    why: list[Reason] | None = Field(None, description="with why=true")


class Recommendations(OfUser[Recommended]):
    known: bool = Field(description="whether the user is in the training data; others get the popular items")
    source: Source = Field(description="what the list is based on")


class ManyRecommendations(BaseModel):
    lists: list[Recommendations]


class HistoryRecommendations(Listed[Recommended]):
    unknown: list[Id] = Field(description="items of the history that are not in the training data; they were ignored")
    source: Source


class Refused(Refusal):
    kept: bool = Field(description="whether it is stored in the file of --refusals, and outlives the server")


class SimilarItem(Item):
    rank: int
    similarity: float


class SimilarItems(Item, Listed[SimilarItem]):
    pass


class ScoredItem(Item):
    score: float


class ExplainedItem(Item):
    why: list[Reason]


class HistoryItem(Item):
    p_real: float | None = Field(description="probability of a real preference; null if the model gives none")


class CountedItem(Item):
    interactions: int


class CountedUser(BaseModel):
    user: Id
    interactions: int


class Users(BaseModel):
    users: list[CountedUser]


class About(BaseModel):
    dataset: str
    model: str
    method: str
    users: int
    items: int
    interactions: int
    metrics: dict[str, float] = Field(description="on the test data, mean over the runs")
    has_titles: bool
    has_p_real: bool
    loaded_at: float = Field(description="seconds since 1970")


class Problem(BaseModel):
    code: str = Field(description="for programs: stays the same")
    message: str = Field(description="for people")


class Error(BaseModel):
    error: Problem
