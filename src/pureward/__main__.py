# SPDX-License-Identifier: Apache-2.0
"""The command line, `python -m pureward`."""

import sys

from pureward.errors import missing_extra


def main() -> None:
    """Run the command line; if a package is missing, print how to install it."""
    try:
        from pureward.cli import main as run

        run()
    except ModuleNotFoundError as error:
        hint = missing_extra(error)
        if hint is error:
            raise
        print(f"pureward: {hint}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
