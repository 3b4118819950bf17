# SPDX-License-Identifier: Apache-2.0
"""The command line: one function a verb; what a verb needs is imported when it is called."""

import os
import sys

import tyro

from pureward.cli.policies import collect, evaluate
from pureward.cli.rewards import plot, probe
from pureward.cli.runs import run_verbs
from pureward.cli.showpieces import demo, reproduce
from pureward.cli.worlds import show, tasks
from pureward.errors import InputError, SimulationError, TrainingError

_PIPE_CLOSED = 141  # what a shell says of a process that SIGPIPE ended


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input ends in one sentence and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        verbs = {
            "tasks": tasks,
            "show": show,
            **run_verbs(arguments),
            "collect": collect,
            "evaluate": evaluate,
            "probe": probe,
            "plot": plot,
            "reproduce": reproduce,
            "demo": demo,
        }
        tyro.extras.subcommand_cli_from_dict(
            verbs,
            prog="pureward",
            description="Positive-Unlabeled Reward Learning: rewards from demonstrations or "
            "annotated episodes that stay alive and stay honest.",
            args=arguments,
        )
        sys.stdout.flush()
    except InputError as error:
        sys.exit(_complain(error, 2))
    except BrokenPipeError:  # whoever read the output has seen enough, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_PIPE_CLOSED)
    except (SimulationError, TrainingError, OSError) as error:
        sys.exit(_complain(error, 1))


def _complain(error: Exception, code: int) -> int:
    print(f"pureward: {error}", file=sys.stderr)
    return code
