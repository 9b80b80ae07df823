"""The metrics that Prometheus reads at /metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Meters:
    """The metrics of one server, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter("accord_requests", "Requests answered.", ["route", "status"], registry=registry)
        self.seconds = Histogram(
            "accord_request_seconds", "Time to answer.", ["route"], buckets=BUCKETS, registry=registry
        )
        self.waiting = Gauge("accord_requests_waiting", "Requests being answered now.", registry=registry)
        self.refused = Counter("accord_refused", "Requests refused for overload.", registry=registry)
        self.reloads = Counter("accord_reloads", "Reloads of the run folder.", ["result"], registry=registry)
        self.loaded = Gauge("accord_run_loaded_seconds", "When the run was read, since 1970.", registry=registry)

    def record(self, route: str, status: int, seconds: float) -> None:
        self.requests.labels(route, status).inc()
        self.seconds.labels(route).observe(seconds)
