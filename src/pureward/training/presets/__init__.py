# SPDX-License-Identifier: Apache-2.0
"""Presets per task: `fast` for one GPU or a laptop, `paper` for Tables 2 to 4.

The file of a task is a table: preset → methods → settings, named as on the command line. A row
applies to the methods for which all words of its key hold: "all", "learned" or "truth",
"imitation", "regression" or "gated", "pu" (a risk with a prior), or the name of a method. No
setting of a method is in two rows, so their order does not matter.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pureward.agents import AGENTS
from pureward.envs.making import check_name
from pureward.errors import InputError
from pureward.rewards.methods import METHODS, default_method
from pureward.runs.config import RunConfig
from pureward.runs.config_file import with_settings
from pureward.training.presets import lift, own, reach, stack, walker

if TYPE_CHECKING:
    import gymnasium

    from pureward.envs.makers import Maker

#: Task → preset → methods → settings; other tasks use the table of `own`.
PRESETS: dict[str, Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
    "walker": walker.PRESETS,
    "reach": reach.PRESETS,
    "lift": lift.PRESETS,
    "stack": stack.PRESETS,
}


def preset(task: "str | Maker | gymnasium.Env", name: str = "fast", **changes: Any) -> RunConfig:
    """Return the settings of a run.

    Args:
        task: a name or an object as in `make`.
        name: "fast" or "paper".
        changes: settings of `RunConfig` that replace the preset's; those of a part are named as on
            the command line, `**{"reward.batch": 8}`. Without `method`, it is nn-pugail for
            `demonstrations`, nn-purl for `annotations`, and otherwise the task's own reward.
    """
    task = check_name(task)
    changes = {"method": default_method(changes)} | changes
    rows = rows_of(task, name, changes["method"])
    settings = {key: value for row in rows.values() for key, value in row.items()}
    default = RunConfig()
    algorithm = changes.get("algorithm", default.algorithm)
    if algorithm != default.algorithm:  # the tables are for the default one
        default = RunConfig(algorithm=algorithm, agent=AGENTS[algorithm].config())
        settings = {key: value for key, value in settings.items() if "agent." not in key}
    return with_settings(default, settings | {"task": task} | changes)


def rows_of(task: str, name: str, method: str) -> dict[str, Mapping[str, Any]]:
    """Return the rows of a task's preset that apply to a method, by their keys."""
    table = PRESETS.get(task, own.PRESETS)
    if name not in [*table]:  # in a dict, a list would raise TypeError
        raise InputError(f"unknown preset {name!r}; choose from {', '.join(sorted(table))}")
    row = METHODS[method]
    true = {"all", method, row.reward, "truth" if row.reward == "truth" else "learned"}
    if row.takes_prior:
        true.add("pu")
    return {words: each for words, each in table[name].items() if set(words.split()) <= true}


def origins(task: str, name: str, method: str) -> dict[str, str]:
    """Return the source of each setting that a preset changes, by setting."""
    rows = rows_of(task, name, method)
    known = task if task in PRESETS else "environments without their own"
    return {
        setting: f"preset {name} of {known}: {words}"
        for words, row in rows.items()
        for setting in row
    }
