"""The API against its own description: whatever it allows is answered as it says, and whatever it forbids refused."""

from __future__ import annotations

import pytest
import schemathesis
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

from accord.serve.api import make_app
from accord.serve.guard import Rules
from serving import make_holder, run  # noqa: F401

EXAMPLES = 8  # of each operation and mode
PAGES = {"/", "/docs"}


@pytest.fixture(scope="module")
def app(run):  # noqa: F811
    return make_app(make_holder(run), Rules(hosts=frozenset({"testserver"}), max_body_bytes=2**30))


@pytest.fixture(scope="module")
def operations(app):
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    return [result.ok() for result in schema.get_all_operations()]


def test_all_that_is_served_but_pages_is_described(app, operations):
    """Who writes a client reads no source."""
    served = {(name, route.path) for route in app.routes if isinstance(route, APIRoute) for name in route.methods}
    described = {(one.method.upper(), one.path) for one in operations}
    assert {path for _, path in served - described} == PAGES
    assert not described - served


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.name.lower())
def test_the_api_does_what_it_says(operations, mode):
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and not (operation.query or operation.body):
            continue  # there is nothing to get wrong

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        @given(case=operation.as_strategy(generation_mode=mode))
        def answers_as_described(case):
            case.validate_response(case.call())

        answers_as_described()
