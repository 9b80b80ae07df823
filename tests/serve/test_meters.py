from __future__ import annotations

from prometheus_client import generate_latest

from accord.serve.meters import Meters


def figures(meters):
    lines = [line for line in generate_latest(meters.registry).decode().splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_requests_are_counted_by_route_and_status():
    meters = Meters()
    for status, seconds in ((200, 0.002), (200, 0.2), (404, 0.002)):
        meters.record("/v1/about", status, seconds)
    found = figures(meters)
    assert found['accord_requests_total{route="/v1/about",status="200"}'] == 2
    assert found['accord_requests_total{route="/v1/about",status="404"}'] == 1
    assert found['accord_request_seconds_bucket{le="0.0025",route="/v1/about"}'] == 2
    assert found['accord_request_seconds_count{route="/v1/about"}'] == 3


def test_each_server_counts_for_itself():
    one, other = Meters(), Meters()
    one.refused.inc()
    assert figures(one)["accord_refused_total"] == 1
    assert figures(other)["accord_refused_total"] == 0
