# SPDX-License-Identifier: Apache-2.0
"""Registries of what a user can choose by name; other packages can add to them.

A package adds its own with an entry point in the group "pureward", whose module registers them:

    [project.entry-points.pureward]
    my_package = "my_package.pureward_plugin"
"""

from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar, overload

from pureward.errors import InputError

T = TypeVar("T")
D = TypeVar("D")


class UnknownNameError(InputError, KeyError):
    """A name that is not registered."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would quote it


class Registry(dict[str, T]):
    """A dictionary of one kind of object, including those of installed plugins."""

    def __init__(self, kind: str) -> None:
        """Make an empty registry; `kind` is the noun in error messages, such as "risk"."""
        super().__init__()
        self.kind = kind

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that adds an object under a new name."""
        if not isinstance(name, str) or not name:
            raise InputError(f"the name of a {self.kind} must be a str, got {name!r}; pass one")

        def add(value: T) -> T:
            if dict.get(self, name, value) is not value:  # our own rows load no plugins
                raise InputError(f"the {self.kind} {name!r} exists; choose another name")
            self[name] = value
            return value

        return add

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise UnknownNameError(f"unknown {self.kind} {name!r}; choose from {', '.join(self)}")
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):  # a file of settings may hold a list
            return False
        if not super().__contains__(name):
            load_plugins()
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        load_plugins()
        return super().__iter__()

    def __len__(self) -> int:
        load_plugins()
        return super().__len__()

    @overload
    def get(self, name: str, default: None = None) -> T | None: ...
    @overload
    def get(self, name: str, default: D) -> T | D: ...
    def get(self, name: str, default: Any = None) -> Any:
        """The object of a name, or the default."""
        return super().get(name, default) if name in self else default

    def keys(self) -> KeysView[str]:
        """The names, including those of plugins."""
        load_plugins()
        return super().keys()

    def values(self) -> ValuesView[T]:
        """The objects, including those of plugins."""
        load_plugins()
        return super().values()

    def items(self) -> ItemsView[str, T]:
        """Names and objects, including those of plugins."""
        load_plugins()
        return super().items()


@cache
def load_plugins() -> None:
    """Import the plugins of installed packages, once."""
    for point in entry_points(group="pureward"):
        try:
            point.load()
        except Exception as error:
            raise InputError(
                f"the plugin {point.name!r} ({point.value}) cannot be imported "
                f"({type(error).__name__}: {error}); repair or uninstall its package"
            ) from error


def import_function(name: str, rule: str) -> Callable[..., Any]:
    """Return the user's function of a name MODULE:FUNCTION.

    Args:
        name: the module and the function in it.
        rule: beginning of the error message, which says what a name may be.
    """
    module, colon, function = name.partition(":")
    try:
        if not colon:
            raise ValueError("it names no function")
        found = getattr(import_module(module), function)
        if not callable(found):
            raise TypeError(f"a {type(found).__name__} is not callable")
    except Exception as error:  # a module may raise anything while it is imported
        raise InputError(
            f"{rule}, got {name!r} ({type(error).__name__}: {error}); check the spelling and that "
            "the module is on PYTHONPATH"
        ) from error
    return found
