# SPDX-License-Identifier: Apache-2.0
"""Exceptions and warnings for users, and checks that many modules share."""

import sys
from numbers import Integral

#: Bound of seeds and counts. Torch uses 64 bits; evaluations add to a seed, ensembles multiply it.
LARGEST = 2**53
# Parts of the out-of-memory messages of torch, CUDA libraries and Warp, in lower case.
_NO_MEMORY = (
    "out of memory",
    "not enough memory",
    "allocate memory",
    "tried to allocate",
    "failed to allocate",
    "status_alloc_failed",
)


class InputError(ValueError):
    """Bad input. The message is one sentence: rule, value, remedy.

    The command line prints the message and exits with code 2.
    """


class RoomError(InputError):
    """Not enough free memory; it may suffice later, when other processes have ended."""


class InUseError(InputError):
    """Another process uses the directory; retry when it has finished."""


class MissingExtraError(InputError, ImportError):
    """A required package is not installed."""


class SimulationError(RuntimeError):
    """The simulation failed: worlds diverged, a buffer overflowed, or a reward is NaN."""


class TrainingError(RuntimeError):
    """Training failed: a loss or a weight is NaN or infinite."""


#: Optional packages and the extra that installs each.
EXTRAS = {
    **dict.fromkeys(("mujoco", "mujoco_warp", "warp", "dm_control"), "sim"),
    **dict.fromkeys(("minari", "h5py", "gymnasium"), "data"),
    **dict.fromkeys(("matplotlib", "scipy", "av", "PIL"), "plot"),
    **dict.fromkeys(("tyro", "tqdm", "tensorboard"), "cli"),
    **dict.fromkeys(("torchrl", "tensordict"), "torchrl"),
    **dict.fromkeys(("starlette", "uvicorn"), "studio"),
    "pyarrow": "lerobot",
    "ray": "ray",
    "skrl": "skrl",
    "stable_baselines3": "sb3",
}


def missing_extra(error: ModuleNotFoundError, extra: str = "") -> Exception:
    """Return the error to raise for a package that is not installed.

    Args:
        error: of the import.
        extra: to install; "" for that of the package.
    """
    package = (error.name or "").split(".")[0]
    if package not in EXTRAS:
        return error
    return MissingExtraError(
        f"this needs the package {package}, which is not installed; "
        f"install it with pip install 'pureward[{extra or EXTRAS[package]}]'"
    )


def warn(text: str) -> None:
    """Print a warning; a progress bar stays below it."""
    bars = sys.modules.get("tqdm")  # not imported here: it is installed with the command line
    (bars.tqdm.write if bars else print)(f"warning: {text}")


def lacks_memory(error: BaseException) -> bool:
    """Return whether memory ran out; torch and Warp report that only in the message."""
    message = str(error).lower() if isinstance(error, RuntimeError) else ""
    return any(words in message for words in _NO_MEMORY) or isinstance(
        error, MemoryError | RoomError
    )


def in_brief(error: BaseException) -> str:
    """Return the first two sentences; torch then lists every process on the GPU."""
    return ". ".join(str(error).split("\n")[0].split(". ")[:2]).removesuffix(".")


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun, such as "1 episode" or "2,000 episodes"."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def check_seed(seed: int) -> int:
    """Return a seed as an int; reject those that a generator does not accept."""
    if not isinstance(seed, Integral):
        raise InputError(f"seed must be a whole number, got {seed!r}; try 0")
    if not -LARGEST < seed < LARGEST:
        raise InputError(f"seed must lie between -2^53 and 2^53, got {seed}; try 0")
    return int(seed)
