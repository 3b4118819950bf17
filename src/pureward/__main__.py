# SPDX-License-Identifier: Apache-2.0
"""`python -m pureward` is the command line."""

import sys

from pureward.errors import missing_extra


def main() -> None:
    """Run the command line; a package that is missing is told in one sentence."""
    try:
        from pureward.cli import main as run

        run()
    except ModuleNotFoundError as error:
        told = missing_extra(error)
        if told is error:
            raise
        print(f"pureward: {told}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
