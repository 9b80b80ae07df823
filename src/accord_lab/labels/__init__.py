"""Studies of labels: what a few are worth to `auto` and in training, and which the audit chooses."""
