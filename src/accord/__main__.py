"""`python -m accord` is `accord`."""

from accord.cli.app import main

main()
