"""Comparisons under the corrected protocol: the leaderboard, injected noise, and partners of other model families."""
