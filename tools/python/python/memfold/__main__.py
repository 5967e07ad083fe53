"""The command ``memfold``: ``python -m memfold`` and what pip installs."""

import sys

from . import _memfold


def main() -> int:
    """Runs the command line of this process."""
    return _memfold.command(["memfold", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
