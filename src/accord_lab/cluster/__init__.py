"""Many runs on a Ray cluster: the entry point `ray` of the group `accord.executors`."""

from accord_lab.cluster.executor import workers_on

__all__ = ["workers_on"]
