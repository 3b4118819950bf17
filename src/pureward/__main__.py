# SPDX-License-Identifier: Apache-2.0
"""`python -m pureward` is the command line."""

from pureward.cli import main

main()
