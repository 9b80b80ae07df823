"""Full ranking, metrics, detection of noise, and significance tests."""
