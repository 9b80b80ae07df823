from __future__ import annotations

import json

from accord.serve.errors import ApiError, overloaded


def test_an_error_is_a_code_for_programs_and_a_sentence_for_people():
    error = ApiError(404, "unknown_user", "no user 'ü' was there.")
    assert json.loads(error.response.body) == {"error": {"code": "unknown_user", "message": "no user 'ü' was there."}}
    assert error.response.status_code == 404


def test_who_is_refused_for_now_is_told_when_to_ask_again():
    error = overloaded("reloading", "try again in a second.")
    assert (error.status_code, error.response.headers["retry-after"]) == (503, "1")
