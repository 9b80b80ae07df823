"""Studies of labels: what a few are worth to `auto`, in training, chosen by the audit, and how far to trust them."""
