# SPDX-License-Identifier: Apache-2.0
"""The command line: one function a verb; what a verb needs is imported when it is called."""

import errno
import os
import sys
from io import TextIOWrapper

import pureward
from pureward.cli.parsing import parse
from pureward.cli.policies import collect, evaluate
from pureward.cli.rewards import plot, probe
from pureward.cli.runs import config, run_verbs, settings_shown
from pureward.cli.showpieces import demo, reproduce
from pureward.cli.worlds import show, tasks
from pureward.errors import InputError, SimulationError, TrainingError, in_brief, lacks_memory

# What a shell says of a process that SIGPIPE or SIGINT ended.
_PIPE_CLOSED, _INTERRUPTED = 141, 130


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input ends in one sentence and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    _take_any_streams()
    if arguments == ["--version"]:
        print(f"pureward {pureward.__version__}")
        return
    try:
        verbs = {
            "tasks": tasks,
            "show": show,
            **run_verbs(arguments),
            "config": config,
            "collect": collect,
            "evaluate": evaluate,
            "probe": probe,
            "plot": plot,
            "reproduce": reproduce,
            "demo": demo,
        }
        with settings_shown(arguments) as words:
            call = parse(verbs, words)
        call()
        sys.stdout.flush()
    except InputError as error:
        sys.exit(_complain(error, 2))
    except BrokenPipeError:  # whoever read the output has seen enough, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_PIPE_CLOSED)
    except OSError as error:
        sys.exit(_complain(_told_of_system(error), 1))
    except (SimulationError, TrainingError) as error:
        sys.exit(_complain(error, 1))
    except KeyboardInterrupt:
        sys.exit(_complain("interrupted", _INTERRUPTED))
    except (MemoryError, RuntimeError) as error:
        if not lacks_memory(error):
            raise
        told = f"there is no memory left ({in_brief(error)}); use fewer worlds, a smaller batch"
        sys.exit(_complain(f"{told} or a smaller replay", 1))


def _take_any_streams() -> None:
    """Letters that the terminal lacks, and output that nobody wants, are no reason to fail."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us
            _occupy(number)
            setattr(sys, name, open(os.devnull, "r+"))  # noqa: SIM115 - until the process ends
        elif number and isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def _occupy(number: int) -> None:
    """Keep a closed stream's number from other files: processes to come write to it."""
    try:
        os.fstat(number)
    except OSError:
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, number)
        if nothing != number:
            os.close(nothing)


def _told_of_system(error: OSError) -> str:
    """What the system refused, with a remedy where there is one."""
    if error.errno == errno.ENOSPC:
        file = error.filename or "it"
        return f"no space is left to write {file}; free some and call again (a run: --resume)"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) and error.filename:
        told = f"{error.filename} is not ours to read or write ({error.strerror})"
        return f"{told}; change its permissions or choose another folder"
    if isinstance(error, FileExistsError | NotADirectoryError) and error.filename:
        return (
            f"{error.filename} must be a folder or lie in one, and a file is there; choose another"
        )
    return str(error)


def _complain(error: Exception | str, code: int) -> int:
    print(f"pureward: {error}", file=sys.stderr)
    return code
