"""Many runs: comparisons, tuning, the leaderboard, noise put in on purpose, and who does the work."""
