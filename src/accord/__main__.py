"""`python -m accord` is `accord`."""

from accord.cli import main

main()
