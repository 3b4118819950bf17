# SPDX-License-Identifier: Apache-2.0
"""The verbs `expert` and `train`, and `config`, which prints their settings.

The defaults of `expert` and `train` are those of the preset, or of the run that is resumed. So the
first arguments are parsed twice: once to find the defaults, once with them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from pureward.cli.parsing import Text, listed
from pureward.cli.verbs import Task, evaluation_text, print_compile_note
from pureward.errors import InputError


@dataclass(frozen=True)
class _FirstReward:
    risk: str = ""


@dataclass(frozen=True)
class _First:
    """Arguments that decide the defaults of the others."""

    method: str = ""
    preset: str = "fast"
    config: str = ""
    resume: bool = False
    out: str = ""
    algorithm: str = "d4pg"
    demonstrations: str = ""
    annotations: str = ""
    failures: str = ""
    reward: _FirstReward = _FirstReward()


_EXPERT = """Train an expert: D4PG on the task's own reward, with policies saved at all stages.

For example: pureward expert reach --out runs/reach

Then: pureward evaluate runs/reach, or pureward show reach --policy runs/reach
"""

_TRAIN = """Train a policy on a reward learned from demonstrations or from annotated episodes.

For example: pureward train reach --demonstrations data/demos --out runs/imitated

Or: pureward train reach --method nn-purl --annotations data/rated --out runs/gated

Then: pureward probe runs/imitated, or pureward plot runs/imitated runs/gated
"""

_RUN_ARGUMENTS = """
All options: --help-all

Defaults are those of the preset for the task and the method, or of the run with --resume.
`pureward config TASK` prints where each comes from. Without TASK, the help is for the walker.

Args:
    task: a name that `pureward tasks` lists, gym:ID, or MODULE:FUNCTION that makes a Gymnasium
        environment.
    settings: all settings.
    preset: settings to start from: "fast" for one GPU or a laptop, "paper" for the paper's tables.
    config: a TOML file of settings that replace the preset's; `pureward config` prints one.
    resume: continue from the newest checkpoint of the run directory.
"""

# Verb → its help and its default method, without data.
_RUNS = {"expert": (_EXPERT, "truth"), "train": (_TRAIN, "nn-pugail")}

# The settings in `--help`; `--help-all` lists every setting.
_COMMON = ("out", "seed", "device", "worlds", "env_steps", "videos")
_OF_REWARDS = ("method", "demonstrations", "annotations", "prior")

# A path that stands for data that a method needs, until it is given.
_FOLDER = "FOLDER"


def _hint(default: str) -> str:
    """The end of an option's help."""
    known = {_FOLDER: "(required by the method)", "''": "(optional)", "": "(optional)"}
    return known.get(default, f"(default: {default})")


@contextmanager
def settings_shown(arguments: list[str]) -> Iterator[list[str]]:
    """Hide settings that the environment sets, and in `--help` the less common ones.

    Yields:
        The arguments to parse in the block.
    """
    if not arguments or arguments[0] not in _RUNS:
        yield arguments
        return
    from pureward.rewards.network import NetworkConfig
    from pureward.runs.config import RunConfig
    from pureward.runs.config_file import FROM_FRAMES

    reward = type(RunConfig().reward)
    hidden = {RunConfig: ["task"], NetworkConfig: FROM_FRAMES, reward: []}
    if {"-h", "--help"} & set(arguments) and "--help-all" not in arguments:
        common = _COMMON if arguments[0] == "expert" else (*_OF_REWARDS, *_COMMON)
        hidden[RunConfig] = [each.name for each in fields(RunConfig) if each.name not in common]
    before = {kind: dict(kind.__annotations__) for kind in hidden}
    hint = tyro.conf.arg(help_behavior_hint=_hint)
    try:
        for kind, names in hidden.items():
            for name, given in before[kind].items():
                if name in names:
                    kind.__annotations__[name] = Annotated[given, tyro.conf.Suppress]
                elif given in (str, tuple[str, ...]):
                    kind.__annotations__[name] = Annotated[given, hint]
        yield ["--help" if word == "--help-all" else word for word in arguments]
    finally:
        for kind, annotations in before.items():
            kind.__annotations__.update(annotations)


def run_verbs(arguments: list[str]) -> dict[str, Callable[..., None]]:
    """Return `expert` and `train`; torch is imported only for the one in the arguments."""
    return {
        name: _run(*row, arguments[1:]) if arguments[:1] == [name] else listed(row[0])
        for name, row in _RUNS.items()
    }


def _run(text: str, method: str, arguments: list[str]) -> Callable[..., None]:
    """The verb that starts a run, with the defaults for these arguments."""
    from pureward.rewards.methods import default_method
    from pureward.runs.config import RunConfig
    from pureward.runs.config_file import check_resumable, read_config, read_toml
    from pureward.runs.directory import RunDirectory
    from pureward.training.presets import preset as preset_of

    named = arguments[0] if arguments and not arguments[0].startswith("-") else "walker"
    first, _ = tyro.cli(
        _First, args=arguments, default=_First(), return_unknown_args=True, add_help=False
    )
    saved = RunDirectory(Path(first.out or RunConfig.out))
    written = read_toml(Path(first.config)) if first.config else {}
    chosen = {"task": named, "method": first.method, "algorithm": first.algorithm, **written}
    data = {"demonstrations": first.demonstrations, "annotations": first.annotations}
    data = {name: folder or chosen.pop(name, "") for name, folder in data.items()}
    chosen["failures"] = first.failures or chosen.get("failures", "")
    if first.reward.risk:
        chosen["reward.risk"] = first.reward.risk  # with failures, else these are refused
    if not chosen["method"]:
        chosen["method"] = method if method == "truth" else default_method(data, method)
    # Help, and the error for a misspelt option, do not need data.
    absent = {} if first.resume or any(data.values()) else _placeholders(chosen["method"])
    chosen |= data | absent
    task = chosen.pop("task")
    if first.resume:
        check_resumable(saved)
        defaults = read_config(saved)
    else:
        defaults = preset_of(task, first.preset, **chosen)

    def run(
        task: Task,
        settings: Annotated[RunConfig, tyro.conf.arg(name="")] = defaults,
        preset: Literal["fast", "paper"] = "fast",
        config: Text = "",
        resume: bool = False,
    ) -> None:
        from pureward.training.loop import train

        if method == "truth" and settings.method != "truth":
            raise InputError(
                f"an expert learns from the task's own reward, got method {settings.method!r}; "
                "leave --method out or use `pureward train`"
            )
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
        print_compile_note(settings.device)
        result = train(settings, resume=resume)
        print(f"{result.state} after {result.env_steps:,} env steps: {result.path}")
        if result.state == "interrupted":
            print("pass --resume to continue")
        if result.evaluation:
            print(evaluation_text(result.evaluation))

    run.__doc__ = text + _RUN_ARGUMENTS
    return run


def _placeholders(method: str) -> dict[str, str]:
    """Placeholders for the datasets that a method needs, by setting."""
    from pureward.rewards.methods import METHODS
    from pureward.rewards.risks import RISKS

    row = METHODS[method]
    failures = row.has_discriminator and RISKS[row.risk].takes_failures
    return {name: _FOLDER for name in (row.positives, "failures" if failures else None) if name}


def config(task: Task, method: str = "nn-pugail", preset: str = "fast") -> None:
    """Print all settings of a run as TOML, each with the source of its value.

    For example: pureward config walker --method nn-purl > mine.toml

    Then edit it: pureward train walker --config mine.toml --annotations data/rated

    Args:
        task: a name that `pureward tasks` lists, gym:ID, or MODULE:FUNCTION.
        method: gail-noreg, gail, pugail, nn-pugail, prl, prl-ensemble, pnrl, purl, nn-purl, or
            truth for an expert.
        preset: "fast" for one GPU or a laptop, "paper" for the paper's tables.
    """
    from pureward.envs.making import check_importable
    from pureward.runs.config_file import to_toml
    from pureward.training.presets import origins
    from pureward.training.presets import preset as preset_of

    check_importable(task)
    settings = preset_of(task, preset, method=method, **_placeholders(method))
    named = dict.fromkeys(("task", "method"), "command line")
    print(f"# pureward config {task} --method {method} --preset {preset}")
    print(to_toml(settings, origins(task, preset, method) | named), end="")
