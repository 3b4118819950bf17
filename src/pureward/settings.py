# SPDX-License-Identifier: Apache-2.0
"""Dataclasses of settings, checked against the types of their defaults."""

import math
import os
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pureward.errors import LARGEST, InputError

T = TypeVar("T")

# What a setting must be, by the type of its default; None is the default of an optional count.
_ONE = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "a whole number",
    str: "text",
}
_MANY = {int: "whole numbers", float: "numbers", str: "text"}


def dataclass_from_json(example: T, values: Any, *, remedy: str, complete: bool = False) -> T:
    """Return a dataclass of the type of `example` from a parsed JSON object.

    Args:
        example: shows the type of each field and gives the values of missing ones.
        values: the JSON object; untrusted.
        remedy: end of the error messages.
        complete: whether every field must be present.
    """
    kind = type(example).__name__
    if not isinstance(values, dict):
        raise InputError(f"a saved {kind} must be a JSON object, got {values!r}; {remedy}")
    known = {each.name: getattr(example, each.name) for each in fields(example)}  # type: ignore
    unknown, missing = set(values) - set(known), set(known) - set(values)
    if unknown:
        raise InputError(
            f"unknown settings {sorted(unknown)} in a saved {kind}; "
            "use the version of pureward that wrote it"
        )
    if complete and missing:
        raise InputError(f"settings {sorted(missing)} are missing in a saved {kind}; {remedy}")
    parts = {
        name: dataclass_from_json(known[name], value, remedy=remedy, complete=complete)
        if is_dataclass(known[name])
        else checked(f"{name} of a saved {kind}", value, known[name], remedy)
        for name, value in values.items()
    }
    return replace(example, **parts)  # type: ignore[type-var]


def check_settings(settings: Any, prefix: str = "") -> None:
    """Check the types and ranges of a frozen dataclass and its parts; convert in place.

    A list becomes a tuple, so that the settings are hashable and equal to loaded ones; a number of
    NumPy becomes one of Python, and a float such as 1e6 an int if the default is one.
    """
    for each in fields(settings):
        name, value = prefix + each.name, getattr(settings, each.name)
        if isinstance(each.type, type) and is_dataclass(each.type) and isinstance(value, each.type):
            check_settings(value, f"{name}.")
        elif each.default is not each.default_factory:  # a required field has neither
            object.__setattr__(settings, each.name, check_setting(name, value, each))


def check_setting(name: str, value: Any, each: Field[Any]) -> Any:
    """Return the value of a field, converted; raise InputError for a wrong type or range."""
    default = each.default if each.default_factory is MISSING else each.default_factory()
    value = checked(name, value, default)
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, float) and not math.isfinite(number):
            raise InputError(
                f"{name} must be a finite number, got {number}; leave it out for the default"
            )
        if isinstance(number, int) and abs(number) >= LARGEST:
            raise InputError(f"{name} must lie within ±2^53, got {number}; lower it")
    return value


def checked(
    name: str, value: Any, default: Any, remedy: str = "leave it out for the default"
) -> Any:
    """Return a value that has the type of a default, converted; raise InputError for another."""
    value = _converted(value, default)
    if not _is_like(value, default):
        rule = _rule(default)
        if isinstance(value, str) and type(default) in _ONE:
            rule += ", without quotes"
        raise InputError(f"{name} must be {rule}, got {value!r}; {remedy}")
    if isinstance(default, str) and "\0" in str(value):  # no file system takes it in a path
        raise InputError(f"{name} must be text without the character NUL, got {value!r}; remove it")
    return tuple(value) if isinstance(default, tuple) else value


def as_path(name: str, value: Any, remedy: str = "name a folder") -> Path:
    """Return a path that a user gave; raise InputError for what cannot be one."""
    return Path(checked(name, value, "", remedy))


def _converted(value: Any, default: Any) -> Any:
    """A number of NumPy as one of Python; a float such as 1e6 as an int if the default is one."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    whole = type(default) is int and isinstance(value, float) and value.is_integer()
    return int(value) if whole else value


def _rule(default: Any) -> str:
    """What a setting with this default must be, in words."""
    if not isinstance(default, tuple):
        return _ONE.get(type(default), f"of type {type(default).__name__}")
    kind = type(default[0]) if default else str
    return f"a list of {_MANY.get(kind, kind.__name__)}"


def _is_like(value: Any, default: Any) -> bool:
    """Whether a value has the type of its default; an int is accepted for a float."""
    if isinstance(default, tuple):
        example = default[0] if default else ""
        return isinstance(value, list | tuple) and all(_is_like(v, example) for v in value)
    if isinstance(default, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(default, str):
        return isinstance(value, str | os.PathLike)
    if default is None:  # an optional count
        return value is None or type(value) is int
    return type(value) is type(default)
