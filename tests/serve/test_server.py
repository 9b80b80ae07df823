from __future__ import annotations

from accord.serve import server


def test_what_counts_as_this_machine():
    assert all(server.is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"))
    assert not any(server.is_loopback(host) for host in ("0.0.0.0", "::", "192.168.1.2", "example.org", ""))
