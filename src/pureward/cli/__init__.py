# SPDX-License-Identifier: Apache-2.0
"""The command line: a function per verb. Libraries are imported when a verb needs them."""

import errno
import os
import sys
from io import TextIOWrapper

import pureward
from pureward.cli.data import check, fit, import_, score
from pureward.cli.parsing import parse
from pureward.cli.runs import config, run_verbs, settings_shown
from pureward.cli.sweeping import reproduce, sweep
from pureward.cli.verbs import collect, demo, evaluate, plot, probe, show, studio, tasks
from pureward.errors import InputError, SimulationError, TrainingError, in_brief, lacks_memory
from pureward.interrupt import INTERRUPTED

_PIPE_CLOSED = 141  # exit code of a shell for a process that SIGPIPE ended


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input prints one sentence and exits with code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    _repair_streams()
    try:
        if arguments == ["--version"]:
            print(f"pureward {pureward.__version__}", flush=True)
            return
        verbs = {
            "tasks": tasks,
            "show": show,
            **run_verbs(arguments),
            "config": config,
            "collect": collect,
            "import": import_,
            "score": score,
            "check": check,
            "fit": fit,
            "evaluate": evaluate,
            "probe": probe,
            "plot": plot,
            "studio": studio,
            "reproduce": reproduce,
            "sweep": sweep,
            "demo": demo,
        }
        with settings_shown(arguments) as words:
            call = parse(verbs, words)
        call()
        sys.stdout.flush()
    except InputError as error:
        _exit(error, 2)
    except BrokenPipeError:  # the reader closed the pipe, such as `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_PIPE_CLOSED)
    except OSError as error:
        resumes = arguments[:1] in (["train"], ["expert"])
        _exit(_system_error_text(error, resumes), 1)
    except (SimulationError, TrainingError) as error:
        _exit(error, 1)
    except KeyboardInterrupt:
        _exit("interrupted", INTERRUPTED)
    except (MemoryError, RuntimeError) as error:
        if not lacks_memory(error):
            raise
        remedy = "use fewer worlds, a smaller batch or a smaller replay"
        _exit(f"out of memory ({in_brief(error)}); {remedy}", 1)


def _repair_streams() -> None:
    """Replace closed streams by /dev/null, and characters that a stream cannot encode by "?"."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            nothing = open(os.devnull, "r+")  # noqa: SIM115 - it gets the number that is free
            os.set_inheritable(nothing.fileno(), True)  # child processes write to it
            setattr(sys, name, nothing)
        elif number and isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def _system_error_text(error: OSError, resumes: bool) -> str:
    """The message of an OSError, with a remedy if there is one."""
    path = error.filename
    if error.errno == errno.ENOSPC:
        again = "call again with --resume" if resumes else "call again"
        return f"no space left to write {path or 'a file'}; free some and {again}"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) and path:
        return (
            f"permission denied: {path} ({error.strerror}); change its permissions or choose "
            "another folder"
        )
    if isinstance(error, FileExistsError | NotADirectoryError) and path:
        return f"{path} must be a folder or be in one, and a file is there; choose another"
    if isinstance(error, FileNotFoundError) and path:
        return f"{path} is not there, or cannot be made; choose another path"
    return str(error)


def _exit(message: Exception | str, code: int) -> None:
    print(f"pureward: {message}", file=sys.stderr)
    sys.exit(code)
