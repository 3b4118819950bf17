# SPDX-License-Identifier: Apache-2.0
"""The settings of a run on disk: written, read, and compared when a run is resumed."""

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pureward.agents import AGENTS
from pureward.errors import InputError
from pureward.files import read_file
from pureward.runs.config import RunConfig
from pureward.runs.directory import RunDirectory
from pureward.settings import check_setting, dataclass_from_json

T = TypeVar("T")

#: The task of a fit, which has no environment.
OFFLINE = "offline"
#: Folders of data, which may be moved before a run is resumed.
DATA = {"demonstrations", "annotations", "failures"}
#: Settings of a network that the frames of the environment decide.
FROM_FRAMES = ["frame_channels", "height", "width"]
#: Settings that a resumed run may change: how long, where and from which folders it runs.
MAY_CHANGE = DATA | {"out", "env_steps", "budget_seconds", "stop_at_return", "device", "videos"}
MAY_CHANGE |= {"actors", "executor", "address", "actor_timeout"}


def to_json(config: RunConfig) -> dict[str, Any]:
    """Return the settings as plain values; a folder may be a `Path`."""
    return json.loads(json.dumps(asdict(config), default=os.fspath))


def from_json(values: Any) -> RunConfig:
    """Return the settings that `to_json` wrote."""
    example = RunConfig()
    algorithm = values.get("algorithm") if isinstance(values, dict) else None
    if isinstance(algorithm, str):  # it decides which settings the agent has
        example = replace(example, algorithm=algorithm, agent=AGENTS[algorithm].config())
    remedy = "restore the config.json that was written"
    return dataclass_from_json(example, values, remedy=remedy)


def with_settings(config: T, settings: Mapping[str, Any], before: str = "") -> T:
    """Return a config with some settings changed, named as on the command line, `part.name`."""
    known = {each.name: each for each in fields(config)}  # type: ignore[arg-type]
    parts: dict[str, Any] = {}
    for name, value in settings.items():
        first, _, rest = name.partition(".")
        if first not in known or (rest and not is_dataclass(getattr(config, first))):
            near = get_close_matches(first, known, n=1) or known
            raise InputError(
                f"unknown setting {before + name!r} of a run; try "
                f"{', '.join(before + each for each in near)}"
            )
        if rest:
            part = parts.get(first, getattr(config, first))
            value = with_settings(part, {rest: value}, f"{before}{first}.")
        elif before and not is_dataclass(value):  # before the part compares it with its bounds
            value = check_setting(before + first, value, known[first])
        parts[first] = value
    return replace(config, **parts)  # type: ignore[type-var]


def to_toml(config: RunConfig, origins: Mapping[str, str]) -> str:
    """Return the settings as TOML, one per line, with the source of each value as a comment.

    Args:
        config: all settings. Left out are folders of data, which are given with each run, and the
            shape of frames, which is the environment's.
        origins: setting → source, for those that are not the default.
    """
    lines = []
    for name, value in flat(to_json(config)).items():
        if value is None or name in DATA or name.removeprefix("reward.network.") in FROM_FRAMES:
            continue
        # JSON would write a letter beyond 16 bits as two escapes, which TOML does not have.
        line = f"{name} = {json.dumps(value, ensure_ascii=False)}"
        lines.append(f"{line:<48}  # {origins.get(name, 'default')}")
    return "\n".join(lines) + "\n"


def read_toml(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file, by their names on the command line."""
    try:
        return flat(tomllib.loads(read_file(path).decode("utf-8-sig")))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} must be a TOML file of settings, as `pureward config` prints it, and cannot "
            f"be read ({error}); check the path and the line"
        ) from error


def read_config(directory: RunDirectory) -> RunConfig:
    """Return the settings of the run in a directory; refuse a fit, which has others."""
    config = read_settings(directory, lambda found: None if _is_fit(found) else from_json(found))
    if config is None:
        raise InputError(
            f"{directory.path} was fitted to data alone and has no policy; score episodes with "
            "`pureward score` instead"
        )
    return config


def read_settings(directory: RunDirectory, understood: Callable[[Any], T]) -> T:
    """Return what `understood` makes of the parsed config.json of a run."""
    directory.check_links()
    try:
        settings = json.loads(read_file(directory.config))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(
            f"{directory.path} is not a run: it has no config.json; check the path, or look at a "
            "dataset with `pureward studio`"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{directory.config} must be the JSON that the run wrote, and cannot be read "
            f"({error}); restore it or choose another run"
        ) from error
    try:
        return understood(settings)
    except InputError as error:
        raise InputError(f"{directory.config} cannot be read: {error}") from error


def _is_fit(settings: Any) -> bool:
    return isinstance(settings, dict) and settings.get("task") == OFFLINE


def check_resumable(directory: RunDirectory) -> None:
    """Refuse to resume where there is no run."""
    if not directory.config.exists():
        raise InputError(
            f"{directory.path} holds no run to resume; leave out --resume to begin one"
        )


def check_config(directory: RunDirectory, config: RunConfig, resume: bool) -> None:
    """Refuse to start a run where one is, or to resume one that is missing or differs."""
    if resume:
        check_resumable(directory)
        changed = differences(read_config(directory), config)
        if changed:
            raise InputError(
                f"a resumed run keeps its settings, got {', '.join(changed)}; "
                f"only {', '.join(sorted(MAY_CHANGE))} may change"
            )
        return
    if directory.config.exists():
        raise InputError(
            f"{directory.path} holds a run already; pass --resume to continue it, or choose "
            "another directory"
        )
    left = next(directory.checkpoints.glob("step-*"), None)
    if left is not None:
        raise InputError(
            f"{directory.path} holds checkpoints of a run, such as {left.name}, without its "
            "config.json; bring that back to resume it or choose another directory"
        )


def differences(before: RunConfig, now: RunConfig) -> list[str]:
    """Return the settings that a resumed run may not change and did, as "name old → new"."""
    # The task's own reward has no settings.
    free = MAY_CHANGE | ({"reward"} if before.method == now.method == "truth" else set())
    old, new = flat(to_json(before)), flat(to_json(now))
    names = [name for name in old if name.partition(".")[0] not in free]
    if bool(before.actors) != bool(now.actors):  # the worlds of actors are not saved
        names.append("actors")
    # Another algorithm may lack some settings.
    return [f"{n} {old[n]} → {new[n]}" for n in names if n in new and old[n] != new[n]]


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings as `part.name`."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found
