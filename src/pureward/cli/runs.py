# SPDX-License-Identifier: Apache-2.0
"""Verbs that start a run: their defaults are the preset's, or those of the run to be resumed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from pureward.cli.arguments import Task, announce, told_evaluation

if TYPE_CHECKING:
    from pureward.runs.config import RunConfig


@dataclass(frozen=True)
class _Start:
    """What must be known of a run's arguments before their defaults are."""

    method: str
    preset: str = "fast"
    config: str = ""
    resume: bool = False
    out: str = ""
    algorithm: str = "d4pg"
    demonstrations: str = ""
    annotations: str = ""


_EXPERT = """Train an expert: D4PG on the task's own reward, policies kept from beginning to end.

For example: pureward expert reach --out runs/reach

Then: pureward evaluate runs/reach, and pureward show reach --policy runs/reach
"""

_TRAIN = """Train a policy on a reward learned from demonstrations or from annotated episodes.

For example: pureward train reach --demonstrations data/demos --out runs/imitated

Or: pureward train reach --method nn-purl --annotations data/rated --out runs/gated

Then: pureward probe runs/imitated, and pureward plot runs/imitated runs/gated
"""

_RUN_ARGUMENTS = """
More options: --help-all

Args:
    task: a name that `pureward tasks` lists; the defaults below are its preset's, and the
        walker's until it is named.
    settings: all settings.
    preset: settings to start from: "fast" for one GPU or a laptop, "paper" for the paper's tables.
    config: a TOML file of settings that replace the preset's; `pureward config` prints one.
    resume: continue from the newest checkpoint of the run directory.
"""

# Verbs that start a run, and the method each begins with.
_RUNS = {"expert": (_EXPERT, "truth"), "train": (_TRAIN, "nn-pugail")}


# What most people set. `--help` shows these, `--help-all` every setting.
_FIRST = (
    *("method", "demonstrations", "annotations", "prior", "out", "seed", "device"),
    *("worlds", "env_steps", "budget_seconds", "evaluate_every", "videos", "distractors"),
)


@contextmanager
def settings_shown(arguments: list[str]) -> Iterator[list[str]]:
    """Hide settings that the command line does not ask for; gives the arguments to parse.

    The task is asked for first, and the environment sets the frames' shape. Help is of what most
    people set, unless it is `--help-all`.
    """
    if not arguments or arguments[0] not in _RUNS:
        yield arguments
        return
    from pureward.rewards.network import NetworkConfig
    from pureward.runs.config import RunConfig

    hidden = {RunConfig: ["task"], NetworkConfig: ["frame_channels", "height", "width"]}
    if {"-h", "--help"} & set(arguments) and "--help-all" not in arguments:
        hidden[RunConfig] = [each.name for each in fields(RunConfig) if each.name not in _FIRST]
    before = {kind: dict(kind.__annotations__) for kind in hidden}
    try:
        for kind, names in hidden.items():
            for name in names:
                kind.__annotations__[name] = Annotated[before[kind][name], tyro.conf.Suppress]
        yield ["--help" if word == "--help-all" else word for word in arguments]
    finally:
        for kind, annotations in before.items():
            kind.__annotations__.update(annotations)


def run_verbs(arguments: list[str]) -> dict[str, Callable[..., None]]:
    """Verbs by name; only the one that the arguments ask for brings in the learning libraries."""
    return {
        name: _run(*row, arguments[1:]) if arguments[:1] == [name] else _run_by_name(row[0])
        for name, row in _RUNS.items()
    }


def _run_by_name(text: str) -> Callable[[], None]:
    """A verb that starts a run, for the list of verbs only."""

    def verb() -> None: ...

    verb.__doc__ = text
    return verb


def _run(text: str, method: str, arguments: list[str]) -> Callable[..., None]:
    """A verb that starts a run, its defaults those of the preset or of the run to be resumed."""
    from pureward.runs.config import RunConfig
    from pureward.runs.config_file import read_config, read_toml
    from pureward.runs.directory import RunDirectory
    from pureward.training.presets import preset as preset_of

    named = arguments[0] if arguments and not arguments[0].startswith("-") else "walker"
    start, _ = tyro.cli(
        _Start, args=arguments, default=_Start(method), return_unknown_args=True, add_help=False
    )
    saved = RunDirectory(Path(start.out or RunConfig.out))
    written = read_toml(Path(start.config)) if start.config else {}
    chosen = {"task": named, "method": start.method, "algorithm": start.algorithm, **written}
    data = {"demonstrations": start.demonstrations, "annotations": start.annotations}
    data = {name: folder or chosen.pop(name, "") for name, folder in data.items()}
    # Help, and the error for a misspelt option, do not need data.
    absent = [] if start.resume or any(data.values()) else _needed(chosen["method"])
    chosen |= data | dict.fromkeys(absent, "FOLDER")
    task = chosen.pop("task")
    defaults = read_config(saved) if start.resume else preset_of(task, start.preset, **chosen)

    def run(
        task: Task,
        settings: Annotated[RunConfig, tyro.conf.arg(name="")] = defaults,
        preset: Literal["fast", "paper"] = "fast",
        config: str = "",
        resume: bool = False,
    ) -> None:
        from pureward.errors import InputError
        from pureward.training.loop import train

        if method == "truth":
            _check_expert(settings)
        if task != named and not resume:
            raise InputError(
                f"the task comes before all options, since its preset depends on it, got {task} "
                f"after them; begin with `{task}`"
            )
        if task != settings.task:
            raise InputError(
                f"the task on the command line is {task}, and {config or settings.out} is for "
                f"{settings.task}; name the same task"
            )
        settings = replace(settings, **dict.fromkeys(absent, ""))
        announce(settings.device)
        result = train(settings, resume=resume)
        print(f"{result.state} after {result.env_steps:,} env steps: {result.path}")
        if result.evaluation:
            print(told_evaluation(result.evaluation))

    run.__doc__ = text + _RUN_ARGUMENTS
    return run


def _check_expert(config: "RunConfig") -> None:
    """Refuse what only a learned reward would look at."""
    from pureward.errors import InputError

    for name, own in (("method", "truth"), ("prior", ""), ("failures", "")):
        if getattr(config, name) != own:
            raise InputError(
                f"an expert learns from the task's own reward, got {name} "
                f"{getattr(config, name)!r}; leave --{name} out or use `pureward train`"
            )


def _needed(method: str) -> list[str]:
    """The datasets that a method cannot do without."""
    from pureward.rewards.methods import METHODS

    needs = METHODS[method].positives
    return [needs] if needs else []


def config(task: Task, method: str = "nn-pugail", preset: str = "fast") -> None:
    """Print all settings of a run as TOML, each with where its value comes from.

    For example: pureward config walker --method nn-purl > mine.toml

    Then change what you like: pureward train walker --config mine.toml --annotations data/rated

    Args:
        task: a name that `pureward tasks` lists.
        method: gail-noreg, gail, pugail, nn-pugail, prl, prl-ensemble, pnrl, purl, nn-purl, or
            truth for an expert.
        preset: "fast" for one GPU or a laptop, "paper" for the paper's tables.
    """
    from pureward.runs.config_file import to_toml
    from pureward.training.presets import origins
    from pureward.training.presets import preset as preset_of

    needed = dict.fromkeys(_needed(method), "FOLDER")
    settings = preset_of(task, preset, method=method, **needed)
    named = dict.fromkeys(("task", "method"), "command line")
    print(f"# pureward config {task} --method {method} --preset {preset}")
    print(to_toml(settings, origins(task, preset, method) | named), end="")
