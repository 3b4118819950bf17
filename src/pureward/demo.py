# SPDX-License-Identifier: Apache-2.0
"""The demo: trains an expert, collects data, trains four learned rewards, and writes a report.

It takes minutes on two CPU cores. Nothing is pre-trained. Calling it again resumes it.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from pureward.data.episodes import TRAIN
from pureward.diagnostics.evidence import probe
from pureward.diagnostics.history import History
from pureward.diagnostics.report import write_report
from pureward.distributed.training import train_all
from pureward.errors import InputError
from pureward.rewards.methods import METHODS
from pureward.runs.collect import collect
from pureward.runs.config import RunConfig
from pureward.runs.references import card_number
from pureward.training.presets import preset

TASK = "reach"
SHOWN = ("gail", "nn-pugail", "prl", "nn-purl")


@dataclass(frozen=True, kw_only=True)
class Size:
    """Steps and episodes of a demo."""

    expert_steps: int = 24_000
    """Env steps of the expert."""
    episodes: int = 20
    """Demonstrations, and annotated episodes, to train on."""
    held_out: int = 6
    """Held-out episodes of each kind for the probes, and as many failures."""
    steps: int = 4_800
    """Env steps of each of the four runs."""
    warmup: int = 1_600
    """Env steps of random actions at the start of each run."""
    evaluated: int = 10
    """Greedy episodes per evaluation and per probe."""


@dataclass(frozen=True, kw_only=True)
class Demonstrated:
    """What a demo wrote."""

    report: Path
    runs: list[History]
    seconds: float
    """Duration of this call."""


def demo(out: Path, size: Size | None = None) -> Demonstrated:
    """Run or resume the demo.

    Args:
        out: folder for all files.
        size: steps and episodes; by default minutes on two cores.

    Returns:
        The report, the four runs and the seconds.
    """
    size = size or Size()
    began = time.monotonic()
    print("An expert on the task's own reward:")
    train_all([run_config("truth", out, size)])
    _collect(out, size)
    configs = [run_config(method, out, size) for method in SHOWN]
    print(f"{len(configs)} runs on rewards learned from pixels, two at a time:")
    train_all(configs, at_once=2)
    print("Episodes whose learned reward is highest compared with the true one:")
    paths = [Path(config.out) for config in configs]
    for path in paths:
        print(f"  {path.name}: {probe(path, episodes=size.evaluated, device='cpu').summary()}")
    report = out / "report.html"
    notes = _notes(out, size, configs, time.monotonic() - began)
    runs = write_report(report, paths, title="Four rewards learned from pixels", notes=notes)
    return Demonstrated(report=report, runs=runs, seconds=time.monotonic() - began)


def run_config(method: str, out: Path, size: Size) -> RunConfig:
    """Return the settings of a run; method "truth" is the expert."""
    needed = METHODS[method].positives
    steps = size.steps if needed else size.expert_steps
    every = max(1, steps // 4)
    return preset(
        TASK,
        method=method,
        out=str(out / (method if needed else "expert")),
        device="cpu",
        env_steps=steps,
        warmup_steps=size.warmup,
        log_every=max(1, every // 4),
        evaluate_every=every,
        evaluate_episodes=size.evaluated,
        probe_every=every,
        checkpoint_every=2 * every,
        snapshot_every=max(1, every // 2),
        **({needed: str(out / needed)} if needed else {}),
    )


def _collect(out: Path, size: Size) -> None:
    for name, stages in (("demonstrations", False), ("annotations", True)):
        if (out / name).exists():
            continue  # datasets are written atomically
        collect(
            TASK,
            out / "expert",
            out / name,
            episodes=size.episodes,
            stages=stages,
            held_out=size.held_out,
            failures=size.held_out,
            device="cpu",
        )
        print(f"  {_dataset_text(out, name)}")


def _dataset_text(out: Path, name: str) -> str:
    path = out / name / "card.json"
    keys = ("episodes", "return_mean", "return_min", "return_max")
    numbers = [card_number(path.parent, TRAIN, key) for key in keys]
    if None in numbers:
        raise InputError(
            f"{path} must be the card that `pureward collect` wrote, and cannot be read; "
            f"delete {path.parent} to collect it again"
        )
    episodes, mean, low, high = numbers
    return f"{episodes} {name}, mean return {mean:.1f} (from {low:.1f} to {high:.1f})"


def _notes(out: Path, size: Size, configs: list[RunConfig], seconds: float) -> list[str]:
    """Paragraphs for the report: how the runs were made."""
    priors = [f"{config.method} has η = {config.prior}" for config in configs if config.prior]
    return [
        f"Task {TASK}: drive a point onto a disc. Rewards see 64×64 frames, policies see positions "
        f"and velocities. An expert was trained on the task's own reward for {size.expert_steps:,} "
        f"env steps; from it come {_dataset_text(out, 'demonstrations')} and "
        f"{_dataset_text(out, 'annotations')}, the latter by policies from all stages of its "
        "training. The four runs see the true reward only in the annotated episodes, from which "
        "prl and nn-purl learn; it is measured beside them.",
        f"Settings for two cores and a few minutes, the same for all four: networks with "
        f"{configs[0].reward.network.stage_channels} channels and no residual blocks instead of "
        f"Table 3's, {size.steps:,} env steps, one seed. Besides, {' and '.join(priors)}, and "
        "imitation weighs successes and failures equally. "
        f"This call took {seconds:.0f} s in all.",
    ]
