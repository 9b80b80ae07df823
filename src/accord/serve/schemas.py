"""Requests and answers of the API, for its description and for checking requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr

from accord.recommender.choice import FORM, PATTERN

MOST_K = 1000
MOST_USERS = 100
MOST_HISTORY = 1000
MOST_LISTED = 10_000  # items to exclude or allow
MOST_CONDITIONS = 20
MOST_CHARACTERS = 1000


def _as_integer(value: Any) -> Any:
    """JSON has only one type of number: 5.0 is an integer too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def sentence(problem: Mapping[str, Any]) -> str:
    """What is wrong with a request: the name as the request has it, and the rule; nothing of what checks it."""
    kind, (part, *place) = problem["type"], problem["loc"]
    if kind == "json_invalid":
        return "the body is not JSON."
    if kind == "extra_forbidden":
        return f"the body has a field {str(place[-1])[:100]!r}, which there is not."
    named = [str(step) for step in place if part == "query" or isinstance(step, int) or step in FIELDS]
    where = ".".join(named) or "the body"
    if part == "body" and len(named) < len(place):  # what is left out says which kinds of id were tried
        return f"{where}: give an id, as text of at most {MOST_CHARACTERS} characters or as a whole number."
    if kind == "string_pattern_mismatch":
        return f"{where}: {FORM}."
    rule = str(problem["msg"]).removeprefix("Input should be ")
    return f"{where}: {rule[:1].lower()}{rule[1:]}."


Integer = Annotated[StrictInt, BeforeValidator(_as_integer)]
Text = Annotated[StrictStr, Field(max_length=MOST_CHARACTERS)]
Id = Annotated[
    Integer | Text,
    Field(description="an id as in the training data; an integer beyond 2^53 is given as text"),
]
Condition = Annotated[StrictStr, Field(pattern=PATTERN)]
Source = Literal["model", "history", "popularity"]


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")

    k: Integer = Field(20, ge=1, le=MOST_K, description="items in each list")
    exclude: list[Id] = Field([], max_length=MOST_LISTED, description="items to leave out")
    allow: list[Id] | None = Field(None, max_length=MOST_LISTED, description="the only items to choose from")
    where: list[Condition] = Field(
        [], max_length=MOST_CONDITIONS, description="what must hold of an item, as genre=drama"
    )
    why: bool = Field(False, strict=True, description="name the items of the history that speak for each item")


class UsersAsked(Asked):
    users: list[Id] = Field(min_length=1, max_length=MOST_USERS, description="users to recommend to")


class HistoryAsked(Asked):
    history: list[Id] = Field(max_length=MOST_HISTORY, description="items that the user interacted with")


FIELDS = {*UsersAsked.model_fields, *HistoryAsked.model_fields}


class Item(BaseModel):
    item: Id
    title: str | None = Field(description="null if it is not known")


class Likeness(Item):
    similarity: float


class Reason(Item):
    contribution: float | None = Field(None, description="what it adds to the score, where a score is a sum over items")
    similarity: float | None = Field(None, description="how similar it is, where a score is no such sum")


class Opinion(BaseModel):
    agree: int = Field(description="members of the consensus that have the item in a list of 20 of their own")
    of: int = Field(description="members that there are")
    places: dict[str, int] = Field(description="the place that each member gives the item, the best being 1")


class Recommended(Item):
    rank: int
    score: float
    agreement: Opinion | None = Field(None, description="of a consensus, for users who are in the data")
    why: list[Reason] | None = Field(None, description="only if it was asked for")


class Recommendations(BaseModel):
    user: Id
    known: bool = Field(description="whether the user was in the training data; others get the popular items")
    source: Source = Field(description="what the list comes from")
    items: list[Recommended]


class ManyRecommendations(BaseModel):
    lists: list[Recommendations]


class HistoryRecommendations(BaseModel):
    unknown: list[Id] = Field(description="items of the history that the run does not know; they were ignored")
    source: Source
    items: list[Recommended]


class SimilarItem(Likeness):
    rank: int


class SimilarItems(Item):
    items: list[SimilarItem]


class Scored(Item):
    score: float


class Scores(BaseModel):
    user: Id
    items: list[Scored]


class ExplainedItem(Item):
    why: list[Reason]


class Explained(BaseModel):
    user: Id
    items: list[ExplainedItem]


class Judged(BaseModel):
    p_real: float | None
    low: float | None
    high: float | None


class Taken(Item):
    p_real: float | None = Field(description="probability of a real preference; null if the model gives none")
    audit: Judged | None = Field(description="what the audit says about it, if one is served")


class History(BaseModel):
    user: Id
    items: list[Taken]


class FoundItem(Item):
    interactions: int


class FoundItems(BaseModel):
    items: list[FoundItem]


class FoundUser(BaseModel):
    user: Id
    interactions: int


class FoundUsers(BaseModel):
    users: list[FoundUser]


class About(BaseModel):
    dataset: str
    model: str
    method: str
    users: int
    items: int
    interactions: int
    metrics: dict[str, float] = Field(description="on the test, mean over the runs")
    has_titles: bool
    has_p_real: bool
    has_audit: bool
    loaded_at: float = Field(description="seconds since 1970")


class Audit(BaseModel):
    summary: dict[str, Any] = Field(description="the audit's summary.json")
    titles: dict[str, str] = Field(description="titles of the items that it names")


class AuditedInteraction(Item, Judged):
    user: Id


class AuditedInteractions(BaseModel):
    count: int = Field(description="how many there are in all")
    interactions: list[AuditedInteraction]


class Status(BaseModel):
    status: str


class Problem(BaseModel):
    code: str = Field(description="for programs: stays the same")
    message: str = Field(description="for people")


class Error(BaseModel):
    error: Problem
