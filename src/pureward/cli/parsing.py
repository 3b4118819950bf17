# SPDX-License-Identifier: Apache-2.0
"""Parses the command line with tyro."""

import inspect
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from functools import partial, wraps
from io import StringIO
from typing import Annotated, Any

import tyro

from pureward.errors import InputError

_DESCRIPTION = (
    "Positive-Unlabeled Reward Learning: learn a reward from demonstrations or from episodes with "
    "rewards, and train a policy on it. Start with `pureward demo`. `pureward VERB --help` explains"
    " a verb; `pureward --version` prints the version."
)

_NARROWEST = 20  # columns of help; with fewer than 6 tyro never returns

OPTIONAL = tyro.conf.arg(help_behavior_hint="(optional)")  # instead of an empty default

Text = Annotated[str, OPTIONAL]
Texts = Annotated[tuple[str, ...], OPTIONAL]


def parse(verbs: Mapping[str, Callable[..., None]], arguments: list[str]) -> Callable[[], None]:
    """Return the call that the arguments describe.

    If a setting rejects its value, tyro prints a box and exits; then the setting's own InputError
    is raised instead, or one for a value that is no number. Other parse errors keep tyro's box.
    """
    name = arguments[0] if arguments and not arguments[0].startswith("-") else ""
    if name and name not in verbs:
        raise InputError(f"unknown verb {name!r}; choose from {', '.join(verbs)}")
    if name == "fit" and not (arguments[1:2] or ["-"])[0].startswith("-"):
        raise InputError(
            f"fit takes paths by their use, got {arguments[1]!r} alone; write --demonstrations "
            f"{arguments[1]}, or --annotations, --unlabeled or --failures"
        )
    if os.environ.get("NO_COLOR"):
        os.environ["TERM"] = "dumb"  # tyro knows only this
    if shutil.get_terminal_size().columns < _NARROWEST:
        os.environ["COLUMNS"] = str(_NARROWEST)
    printed = StringIO()
    try:
        with redirect_stderr(printed):
            if name:
                verb = _deferred(verbs[name])
                return tyro.cli(verb, prog=f"pureward {name}", args=arguments[1:])
            summaries = {
                name: listed((verb.__doc__ or "").partition("\n")[0])
                for name, verb in verbs.items()
            }
            tyro.extras.subcommand_cli_from_dict(
                summaries, prog="pureward", description=_DESCRIPTION, args=arguments
            )
            raise InputError(f"the verb comes first, got {arguments[0]!r}; see `pureward --help`")
    except SystemExit as end:
        error = end.__context__
        while error is not None and not isinstance(error, InputError):
            error = error.__context__
        error = error or _number_error(end.__context__)
        if error is not None:
            raise error from None
        sys.stderr.write(printed.getvalue())
        raise


def _number_error(failed: Any) -> InputError | None:
    """The sentence for tyro's error about a value that should be a number, or several."""
    arg: Any = getattr(failed, "arg", None)
    option: Any = getattr(arg, "lowered", None)
    metavar = str(getattr(option, "metavar", ""))
    kinds = re.findall(r"\b(?:INT|FLOAT)\b", metavar)
    given = re.search(r"['\"].*['\"]", failed.message) if kinds else None
    if given is None:
        return None
    kind = "whole number" if "INT" in kinds else "number"
    several = f"{kind}s" if "..." in metavar else f"{len(kinds)} {kind}s"
    rule = f"a {kind}" if len(kinds) == 1 else several
    default = arg.field.default
    values = default if isinstance(default, tuple) else (default,)
    shown = " ".join(str(value) for value in values if value is not None)
    remedy = f"leave it out for the default, {shown}" if shown else "leave it out"
    return InputError(f"{option.name_or_flags[0]} must be {rule}, got {given[0]:.80}; {remedy}")


def _deferred(verb: Callable[..., None]) -> Callable[..., Callable[[], None]]:
    """A function with the same arguments that returns the call instead of making it."""
    # tyro would keep the line breaks inside descriptions of arguments.
    verb.__doc__ = re.sub(r"\n {8}", " ", inspect.cleandoc(verb.__doc__ or ""))

    @wraps(verb)
    def call(*args: object, **settings: object) -> Callable[[], None]:
        return partial(verb, *args, **settings)

    return call


def listed(text: str) -> Callable[[], None]:
    """Return a verb with this help and no arguments, for a list of verbs."""

    def verb() -> None: ...

    verb.__doc__ = text
    return verb
