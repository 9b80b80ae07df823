"""Many runs, or one large one, on a Ray cluster: the entry point `ray` of the group `accord.executors`."""

from accord_lab.cluster.executor import workers_on
from accord_lab.cluster.launcher import train_on

__all__ = ["train_on", "workers_on"]
