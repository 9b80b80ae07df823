"""Many runs: comparisons, tuning, significance tables, and the processes or machines that train them."""
