from __future__ import annotations

import pytest

from accord.errors import InputError
from accord.serve import server


def test_what_counts_as_this_machine():
    assert all(server.is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"))
    assert not any(server.is_loopback(host) for host in ("0.0.0.0", "::", "192.168.1.2", "example.org", ""))


def test_a_place_that_cannot_be_listened_on_is_one_sentence():
    with server.listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"cannot listen on 127\.0\.0\.1 port {port} \(.+\); give another host="):
            server.listen("127.0.0.1", port)
    with pytest.raises(InputError, match=r"port=70000 is .*; give a number from 0 to 65535"):
        server.listen("127.0.0.1", 70_000)


def test_others_are_let_in_only_with_a_good_token(tmp_path):
    with pytest.raises(InputError, match=r"host='0\.0\.0\.0' .* token: set ACCORD_TOKEN"):
        server.serve(tmp_path, "0.0.0.0", 0)
    with pytest.raises(InputError, match="16 characters or more"):
        server.serve(tmp_path, "0.0.0.0", 0, token="short")


def test_uvicorn_tells_nothing_of_itself():
    config = server.configuration(lambda *_: None)
    assert config.http is server.Connection
    assert (config.server_header, config.access_log, config.proxy_headers) == (False, False, False)
    assert config.ws == "none"
