# SPDX-License-Identifier: Apache-2.0
"""Finds and makes Gymnasium environments: `gym:ID`, `MODULE:FUNCTION`, or an object."""

import inspect
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from pureward.errors import InputError
from pureward.registry import import_function

GYM = "gym:"
#: Makes one environment, or with the argument `num_envs` a vector environment.
Maker = Callable[..., gymnasium.Env | VectorEnv]
#: Functions that were passed as objects, by their name MODULE:FUNCTION.
_PASSED: dict[str, Maker] = {}


def find_maker(name: str) -> Maker:
    """Return the function that makes environments of a name.

    Args:
        name: `gym:ID`, `gym:MODULE:ID`, `MODULE:FUNCTION`, or what `name_of` returned.
    """
    if name.startswith(GYM):
        _check_registered(name)
        return partial(gymnasium.make, name.removeprefix(GYM))
    if name in _PASSED:
        return _PASSED[name]
    return import_function(name, "an environment is a task, gym:ID or MODULE:FUNCTION")


def _check_registered(name: str) -> None:
    """Import the module of `gym:MODULE:ID`; raise InputError for an ID that is not registered."""
    module, _, env_id = name.removeprefix(GYM).rpartition(":")
    try:
        if module:
            import_module(module)
        # Without its version, an ID means the newest one.
        if not any(known.startswith(f"{env_id}-v") for known in gymnasium.registry):
            gymnasium.spec(env_id)
    except Exception as error:  # a module may raise anything while it is imported
        raise InputError(
            f"gym:ID must be registered with Gymnasium, got {name!r} ({type(error).__name__}: "
            f"{error}); check the spelling, or name the module that registers it, gym:MODULE:ID"
        ) from error


def name_of(given: Maker | gymnasium.Env) -> str:
    """Return the name of an environment that was passed as an object, and register it.

    Args:
        given: a function that makes environments, or an environment, which is copied.
    """
    if isinstance(given, VectorEnv):
        raise InputError(
            f"a run makes vector environments of several sizes, got one of {given.num_envs}; pass "
            "a function of num_envs that makes it"
        )
    if not isinstance(given, gymnasium.Env):
        if not callable(given):
            raise InputError(
                f"an environment is a name, a function or a gymnasium.Env, got {given!r}; pass one"
            )
        kind = given if hasattr(given, "__qualname__") else type(given)
        name = f"{given.__module__}:{kind.__qualname__}"
        _PASSED[name] = given
        return name
    if (spec := given.spec) is not None:
        kwargs = {key: value for key, value in spec.kwargs.items() if key != "render_mode"}
        if replace(spec, kwargs=kwargs) == gymnasium.registry.get(spec.id):
            return GYM + spec.id
    kind = type(given.unwrapped)
    name = f"{kind.__module__}:{kind.__qualname__}()"  # not importable: other settings than these
    _PASSED[name] = partial(_copy, given)
    return name


def _copy(env: gymnasium.Env, render_mode: str | None = None) -> gymnasium.Env:
    if render_mode not in (None, env.render_mode):
        raise InputError(
            f"frames are rendered with render_mode={render_mode!r}, and {env} was made with "
            f"{env.render_mode!r}; make it with that, or take frames from the observation"
        )
    try:
        return deepcopy(env)
    except Exception as error:  # whatever a part of it raises
        raise InputError(
            f"an environment object is copied for every world, and {env} cannot be "
            f"({type(error).__name__}: {error}); pass a function that makes it"
        ) from error


def make_worlds(make: Maker, worlds: int, processes: bool, options: dict[str, Any]) -> VectorEnv:
    """Make worlds, or take the vector environment of a function with the argument `num_envs`.

    A function without the argument `render_mode` must make environments that have that mode.
    """
    parameters, mode = inspect.signature(make).parameters, None
    any_name = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    if "render_mode" in options and not any_name and "render_mode" not in parameters:
        mode, options = options["render_mode"], {}
    if "num_envs" not in parameters:
        kind = AsyncVectorEnv if processes else SyncVectorEnv
        makers = [lambda: _checked(make(**options), gymnasium.Env, mode)] * worlds
        return kind(makers, autoreset_mode=AutoresetMode.DISABLED)
    if processes:
        raise InputError(
            "processes are for functions that make one environment, and this one makes vector "
            "environments; leave processes out, or return an AsyncVectorEnv"
        )
    envs = _checked(make(num_envs=worlds, **options), VectorEnv, mode)
    if envs.num_envs != worlds:
        raise InputError(
            f"a vector environment must have num_envs worlds, {worlds}, got {envs.num_envs}; pass "
            "num_envs on to it"
        )
    return envs


def _checked(made: Any, wanted: type, mode: str | None) -> Any:
    if not isinstance(made, wanted):
        raise InputError(
            f"a function must return a gymnasium.Env, or with the argument num_envs a "
            f"gymnasium.vector.VectorEnv, got {type(made).__name__}; return the environment"
        )
    if mode not in (None, made.render_mode):
        raise TypeError(f"it takes no render_mode, and its environment has {made.render_mode!r}")
    return made


def time_limit(envs: VectorEnv) -> int | None:
    """Steps after which episodes are truncated by `gymnasium.make` or a `TimeLimit` wrapper."""
    inner = envs.unwrapped
    if isinstance(inner, SyncVectorEnv):
        return _limit_of(inner.envs[0])
    if isinstance(inner, AsyncVectorEnv):
        with inner.env_fns[0]() as one:  # a worker stops if it is asked for what it does not have
            return _limit_of(one)
    return envs.spec.max_episode_steps if envs.spec else None


def _limit_of(env: gymnasium.Env) -> int | None:
    name = "_max_episode_steps"  # of the wrapper; the spec is missing in classes without an ID
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
