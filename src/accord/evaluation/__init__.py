"""Full ranking, metrics, how well noise is told, and whether a difference is one."""
