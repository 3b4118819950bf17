# SPDX-License-Identifier: Apache-2.0
"""Settings of the kind that their defaults show, wherever they come from."""

import math
import os
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from pureward.errors import LARGEST, InputError


def put_right(settings: Any, before: str = "") -> None:
    """Refuse settings of another kind, in any part; 1e6 is taken where a count is asked for."""
    for each in fields(settings):
        name, value = before + each.name, getattr(settings, each.name)
        if is_dataclass(value):
            put_right(value, f"{name}.")
            continue
        default = _default(each)
        if type(default) is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(default, tuple) and isinstance(value, list):
            value = tuple(value)
        if not is_like(value, default):
            shown = type(default).__name__ if is_dataclass(default) else repr(default)
            raise InputError(f"{name} must be like {shown}, got {value!r}; leave it out for that")
        _check_numbers(name, value)
        object.__setattr__(settings, each.name, value)  # frozen for everybody else


def is_like(value: Any, default: Any) -> bool:
    """Whether a setting has the type that its default shows; a number may lack its point."""
    if isinstance(default, tuple):
        example = default[0] if default else ""
        return isinstance(value, list | tuple) and all(is_like(v, example) for v in value)
    if isinstance(default, float):
        return type(value) in (int, float)
    if isinstance(default, str):
        return isinstance(value, str | os.PathLike)
    if default is None:  # of settings that count something, where they are given
        return value is None or type(value) is int
    return type(value) is type(default)


def _default(each: Field) -> Any:
    factory = each.default_factory
    return each.default if factory is MISSING else factory()


def _check_numbers(name: str, value: Any) -> None:
    """Refuse NaN, infinity, and whole numbers too large for the length of a tensor."""
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, float) and not math.isfinite(number):
            raise InputError(
                f"{name} must be a finite number, got {number}; leave it out for the preset's"
            )
        if isinstance(number, int) and abs(number) >= LARGEST:
            raise InputError(f"{name} must lie within ±2^53, got {number}; lower it")
