from __future__ import annotations

import json

from accord.serve.errors import ApiError, internal, overloaded


def test_an_error_is_a_code_for_programs_and_a_sentence_for_people():
    error = ApiError(404, "unknown_user", "no user 'ü' was there.")
    assert json.loads(error.body) == {"error": {"code": "unknown_user", "message": "no user 'ü' was there."}}
    assert str(error) == "no user 'ü' was there."
    assert error.headers == {}


def test_who_is_refused_for_now_is_told_when_to_ask_again():
    error = overloaded("reloading", "try again in a second.")
    assert (error.status, error.code, error.headers) == (503, "reloading", {"Retry-After": "1"})


def test_an_error_of_our_own_says_nothing_of_itself():
    assert (internal().status, internal().code) == (500, "internal")
    assert "log" in internal().message
