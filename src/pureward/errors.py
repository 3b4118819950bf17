# SPDX-License-Identifier: Apache-2.0
"""The exceptions that a user is meant to read, and small checks that many modules share."""

from numbers import Integral

#: Torch counts in 64 bits; evaluations add to a run's seed, and ensembles multiply it.
LARGEST = 2**53
# Parts of what torch, its CUDA libraries and Warp say on any processor, in lower case.
_NO_MEMORY = (
    "out of memory",
    "not enough memory",
    "allocate memory",
    "tried to allocate",
    "failed to allocate",
    "status_alloc_failed",
)


class InputError(ValueError):
    """Bad input, told in one sentence: the rule, the value that broke it, the remedy.

    The command line prints the sentence and exits with code 2; what else is raised is a bug
    of ours and keeps its traceback.
    """


class RoomError(InputError):
    """What is asked for does not fit into the memory that is free; beside others it may later."""


class InUseError(InputError):
    """Another process has the folder; later it may be free, or its work done."""


class MissingExtraError(InputError, ImportError):
    """A package is needed that is not installed."""


class SimulationError(RuntimeError):
    """The simulation cannot be trusted any more: a number is none, or a buffer overflowed."""


class TrainingError(RuntimeError):
    """Learning cannot go on: a loss or a weight is not a number any more."""


#: Optional packages and the extra that installs each.
EXTRAS = {
    **dict.fromkeys(("mujoco", "mujoco_warp", "warp", "dm_control"), "sim"),
    **dict.fromkeys(("minari", "h5py", "gymnasium"), "data"),
    **dict.fromkeys(("matplotlib", "scipy", "av", "PIL"), "plot"),
    **dict.fromkeys(("tyro", "tqdm", "tensorboard"), "cli"),
}


def missing_extra(error: ModuleNotFoundError) -> Exception:
    """Return the error to raise for a package that is not installed."""
    package = (error.name or "").split(".")[0]
    if package not in EXTRAS:
        return error
    return MissingExtraError(
        f"this needs the package {package}, which is not installed; "
        f"install it with pip install 'pureward[{EXTRAS[package]}]'"
    )


def lacks_memory(error: BaseException) -> bool:
    """Whether it was raised for want of memory; torch and Warp tell that in words."""
    said = str(error).lower() if isinstance(error, RuntimeError) else ""
    return any(words in said for words in _NO_MEMORY) or isinstance(error, MemoryError | RoomError)


def in_brief(error: BaseException) -> str:
    """The first two sentences: torch goes on to list every process on the GPU."""
    return ". ".join(str(error).split("\n")[0].split(". ")[:2]).removesuffix(".")


def check_seed(seed: int) -> None:
    """Refuse what no generator can begin from."""
    if not isinstance(seed, Integral):
        raise InputError(f"seed must be a whole number, got {seed!r}; try 0")
    if not -LARGEST < seed < LARGEST:
        raise InputError(f"seed must lie between -2^53 and 2^53, got {seed}; try 0")
