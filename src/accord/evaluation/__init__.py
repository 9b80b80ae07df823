"""Full ranking, metrics, how well noise is found, and whether a difference is significant."""
