# SPDX-License-Identifier: Apache-2.0
"""From words to a call of a verb."""

import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from functools import partial, wraps
from io import StringIO

import tyro

from pureward.errors import InputError

_DESCRIPTION = (
    "Positive-Unlabeled Reward Learning: rewards from demonstrations or annotated episodes that "
    "stay alive and stay honest."
)


def parse(verbs: Mapping[str, Callable[..., None]], arguments: list[str]) -> Callable[[], None]:
    """The call that the arguments ask for.

    Where a setting refuses its value tyro draws a box and names wrappers of its own; the sentence
    alone is raised instead. Its other boxes tell of words it cannot read, and stay.
    """
    # tyro would answer an unknown verb beside --help with help, as if all were well.
    if arguments and not arguments[0].startswith("-") and arguments[0] not in verbs:
        raise InputError(f"unknown verb {arguments[0]!r}; choose from {', '.join(verbs)}")
    later = {name: _later(verb) for name, verb in verbs.items()}
    said = StringIO()
    try:
        with redirect_stderr(said):
            return tyro.extras.subcommand_cli_from_dict(
                later, prog="pureward", description=_DESCRIPTION, args=arguments
            )
    except SystemExit as end:
        refusal = _refusal(end)
        if refusal is not None:
            raise refusal from None
        sys.stderr.write(said.getvalue())
        raise


def _refusal(end: SystemExit) -> InputError | None:
    """The error that a setting's class raised and tyro ended for."""
    error = end.__context__
    while error is not None and not isinstance(error, InputError):
        error = error.__context__
    return error


def _later(verb: Callable[..., None]) -> Callable[..., Callable[[], None]]:
    """The same arguments; what it does is left to whoever asked."""

    @wraps(verb)
    def call(*args: object, **settings: object) -> Callable[[], None]:
        return partial(verb, *args, **settings)

    return call
