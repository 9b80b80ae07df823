"""The metrics that Prometheus reads at /metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Meters:
    """Each server counts for itself."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter("accord_requests", "Requests answered.", ["route", "status"], registry=self.registry)
        self.seconds = Histogram(
            "accord_request_seconds", "Time to answer.", ["route"], buckets=BUCKETS, registry=self.registry
        )
        self.waiting = Gauge("accord_requests_waiting", "Requests being answered now.", registry=self.registry)
        self.refused = Counter("accord_refused", "Requests refused for overload.", registry=self.registry)
        self.reloads = Counter("accord_reloads", "Reloads of the run folder.", ["result"], registry=self.registry)
        self.loaded = Gauge("accord_run_loaded_seconds", "When the run was read, since 1970.", registry=self.registry)

    def answered(self, route: str, status: int, seconds: float) -> None:
        self.requests.labels(route, status).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
