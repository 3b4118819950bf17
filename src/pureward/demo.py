# SPDX-License-Identifier: Apache-2.0
"""The demo: an expert, data of it, four ways to learn from them side by side, and a report.

Small enough for two CPU cores and a few minutes; nothing is pre-trained. What was begun goes on
when it is called again.
"""

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

from pureward.agent.d4pg import D4PGConfig
from pureward.agent.exploration import ExplorationConfig
from pureward.data.replay import ReplayConfig
from pureward.evidence import probe
from pureward.fleet import train_all
from pureward.history import History
from pureward.purl import PurlConfig
from pureward.report import write_report
from pureward.reward.methods import method_named
from pureward.reward.network import NetworkConfig
from pureward.reward.regression import RewardModelConfig
from pureward.run.collect import collect
from pureward.run.config import RunConfig
from pureward.run.presets import preset

TASK = "reach"
METHODS = ("gail", "nn-pugail", "prl", "nn-purl")

# η. The replay keeps random actions and noisy ones, so that a fifth of it succeeds at most; with an
# η as low as that, D ends below ½ on all frames once the policy stays on the disc. Annotated
# episodes are of the whole course of learning, and a gate is to let most of what they show through.
_PRIORS = {"nn-pugail": "linear:0.2:0.4", "nn-purl": "0.7"}

# A core trains Table 3's network on 80 images a second. Without residual blocks and with fewer
# channels it trains four times as many, and a point on a disc needs no more.
_NETWORK = NetworkConfig(stage_channels=(8, 16, 32), stage_blocks=0)
_REWARD = PurlConfig(
    batch=16,
    learning_rate=3e-3,
    ceiling=1.0,
    labels="cached",
    refreshed=32,
    network=_NETWORK,
    model=RewardModelConfig(learning_rate=3e-3, batch_size=32, epochs=5),
)
# Fast rates for short runs. Rewards are positive: a critic that begins at 0, the middle of its
# range, thinks little of actions it has not seen, and the policy does not run into a corner.
_DISCOUNT = 0.95
_AGENT = D4PGConfig(
    norm_first=True,
    value_low=-1.0 / (1.0 - _DISCOUNT),
    value_high=1.0 / (1.0 - _DISCOUNT),
    actor_rate=1e-3,
    critic_rate=1e-3,
    polyak=0.02,
)
# A policy that ran into a corner while D knew nothing yet has to get out again.
_EXPLORATION = ExplorationConfig(low=0.05, high=0.8, correlation=0.8)


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much of everything."""

    expert_steps: int = 4_800
    """Env steps of the expert."""
    episodes: int = 20
    """Demonstrations, and annotated episodes, to train on."""
    held_out: int = 6
    """More of each for the probes, and as many failures."""
    steps: int = 4_800
    """Env steps of each of the four runs."""
    warmup: int = 1_600
    """Env steps of random actions at their beginning."""
    evaluated: int = 10
    """Greedy episodes of an evaluation, and of the evidence."""


@dataclass(frozen=True, kw_only=True)
class Demonstrated:
    """What a demo leaves."""

    report: Path
    runs: list[History]
    seconds: float
    """How long this call took."""


def demo(out: Path, size: Size | None = None) -> Demonstrated:
    """Run the demo in a folder, from where it was left; progress is shown on the way."""
    size = size or Size()
    began = time.monotonic()
    print("An expert on the task's own reward:")
    expert = run_config("truth", out, size)
    train_all([replace(expert, out=str(out / "expert"), env_steps=size.expert_steps)])
    _collect(out, size)
    configs = [run_config(method, out, size) for method in METHODS]
    print(f"{len(configs)} runs on rewards learned from pixels, two at a time:")
    train_all(configs, at_once=2)
    print("Episodes where reward and truth part:")
    paths = [Path(config.out) for config in configs]
    for path in paths:
        print(f"  {path.name}: {probe(path, episodes=size.evaluated, device='cpu').told()}")
    report = out / "report.html"
    notes = _notes(out, size, time.monotonic() - began)
    runs = write_report(report, paths, title="Four rewards learned from pixels", notes=notes)
    return Demonstrated(report=report, runs=runs, seconds=time.monotonic() - began)


def run_config(method: str, out: Path, size: Size) -> RunConfig:
    """The settings of one of the runs; "truth" is the expert's."""
    every = max(1, size.steps // 4)
    config = replace(
        preset(TASK, "fast", out=str(out / method), device="cpu"),
        # Drawing frames costs the most. Few worlds make many control steps, and so many updates of
        # policy and discriminator, out of as many frames.
        worlds=8,
        env_steps=size.steps,
        warmup_steps=size.warmup,
        updates_per_step=2,
        batch=128,
        replay=ReplayConfig(capacity=20_000, discount=_DISCOUNT),
        agent=_AGENT,
        exploration=_EXPLORATION,
        log_every=max(1, every // 4),
        evaluate_every=every,
        evaluate_episodes=size.evaluated,
        probe_every=every,
        probe_frames=64,
        checkpoint_every=2 * every,
        snapshot_every=max(1, every // 2),
    )
    row = method_named(method)
    if row.reward == "truth":
        return config
    needed = "demonstrations" if row.needs_demonstrations else "annotations"
    return replace(
        config,
        method=method,
        prior=_PRIORS.get(method, ""),
        reward=_REWARD,
        save_replay=False,
        **{needed: str(out / needed)},
    )


def _collect(out: Path, size: Size) -> None:
    for name, stages in (("demonstrations", False), ("annotations", True)):
        if (out / name).exists():
            continue  # a dataset appears whole or not at all
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
        print(f"  {_described(out, name)}")


def _described(out: Path, name: str) -> str:
    told = json.loads((out / name / "card.json").read_text())["splits"]["train"]
    return (
        f"{told['episodes']} {name}, mean return {told['return_mean']:.1f} "
        f"(from {told['return_min']:.1f} to {told['return_max']:.1f})"
    )


def _notes(out: Path, size: Size, seconds: float) -> list[str]:
    """How the runs were made, for the report."""
    return [
        f"Task {TASK}: drive a point onto a disc. Rewards see 64×64 frames, policies see positions "
        f"and velocities. An expert was trained on the task's own reward for {size.expert_steps:,} "
        f"env steps; from it come {_described(out, 'demonstrations')} and "
        f"{_described(out, 'annotations')}, the latter from policies over the whole course of its "
        "learning. The four runs never see the true reward; it is measured beside them.",
        f"Settings for two cores and a few minutes, the same for all four: networks with "
        f"{_NETWORK.stage_channels} channels and no residual blocks instead of Table 3's, "
        f"{size.steps:,} env steps, one seed. Besides, "
        f"{' and '.join(f'{name} has η = {prior}' for name, prior in _PRIORS.items())}; "
        "results/demo/notes.md lists what else was tried, for the baselines too. "
        f"This call took {seconds:.0f} s in all.",
    ]
