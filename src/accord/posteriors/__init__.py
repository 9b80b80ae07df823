"""P(real | user, item, observed) for every interaction of a log, sharpened by the labels of a few."""
