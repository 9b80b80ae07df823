"""Hostile input: made by hand (`logs`, `folders`), and by a fuzzer guided by coverage (`targets`, `harness`)."""
