"""`accord`, and `python -m accord`."""

import sys
from pathlib import Path


def main() -> None:
    """Run a command. Ctrl-C says that it stopped, also while the command is still being loaded."""
    try:
        from accord.cli.app import main as run
    except KeyboardInterrupt:
        print("\naccord: stopped.", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    if sys.path[:1] == [str(Path.cwd())]:  # by `python -m`: what lies in a folder of data must not be imported
        del sys.path[0]
    main()
