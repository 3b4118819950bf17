# SPDX-License-Identifier: Apache-2.0
"""η in a closed loop: estimated while a policy learns from it, beside what the simulator knows.

    python benchmarks/prior_loop.py --out results/prior

An expert of `reach`, 50 demonstrations of it, and `nn-pugail` with an estimated η, of the demo's
size and a half, on one CPU core. In the end the last policy plays fresh episodes, on which D never
trained, and η̂ of those alone is told, with where on the disc expert and agent come to rest. What
was begun goes on when it is called again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import tyro

from pureward.data.dataset import read_dataset
from pureward.data.draw import draw
from pureward.data.episodes import HELD_OUT, TRAIN, Episode
from pureward.data.frames import FrameBank
from pureward.demo import Size, run_config
from pureward.diagnostics.eta import read_eta, true_course
from pureward.diagnostics.history import History, read_histories
from pureward.diagnostics.plot import PRIOR, curves
from pureward.distributed.fleet import train_all
from pureward.envs import make
from pureward.envs.tasks.reach import ARENA
from pureward.files import write_json
from pureward.picture import save_figure
from pureward.rewards.priors.estimated import EstimatedPrior
from pureward.rewards.priors.evidence import Evidence
from pureward.rewards.saved import load_reward
from pureward.runs.collect import collect, rollout
from pureward.runs.policy import load_policy

SIZE = Size(steps=9_600)


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to run."""

    out: Path = Path("results/prior")
    """Folder for loop-reach.json and loop-reach.png."""
    work: Path = Path("runs/prior-loop")
    """Where expert, demonstrations and runs are put."""
    prior: str = "bbe"
    """Where η comes from."""
    seeds: int = 2
    """Runs."""


def main(args: Args) -> None:
    torch.set_num_threads(1)
    expert = run_config("truth", args.work, SIZE)
    train_all([replace(expert, out=str(args.work / "expert"), env_steps=SIZE.expert_steps)])
    data = args.work / "demonstrations"
    if not data.exists():
        collect("reach", args.work / "expert", data, device="cpu")
    config = replace(run_config("nn-pugail", args.work, SIZE), prior=args.prior)
    runs = [
        replace(config, seed=seed, out=str(args.work / f"{args.prior}-{seed}"))
        for seed in range(args.seeds)
    ]
    train_all(runs, at_once=1)
    told = read_histories([Path(run.out) for run in runs])
    save_figure(curves(told, metric=PRIOR), args.out / "loop-reach.png")
    demonstrated = read_dataset(data)
    found = {
        "prior": args.prior,
        "demonstrations_rest_at": resting_place(demonstrated.split(TRAIN)),
        "runs": [
            course(run) | fresh(run.path, draw(demonstrated.split(HELD_OUT), "reach"))
            for run in told
        ],
    }
    write_json(args.out / "loop-reach.json", found)
    print(f"demonstrations rest at {found['demonstrations_rest_at']} cm")
    for run, row in zip(told, found["runs"], strict=True):
        eta = read_eta(run)
        assert eta is not None, "the method has an η"
        print(f"seed {run.seed}: {eta.told()}")
        print(
            f"  true return {row['returns'][-1]:.1f}; fresh episodes: η̂ {row['fresh/value']:.2f} "
            f"({row['fresh/low']:.2f} to {row['fresh/high']:.2f}), {row['fresh/success']:.0%} of "
            f"the frames are successes, rests at {row['fresh/rests_at']} cm"
        )


def course(run: History) -> dict:
    """Everything that was logged of η, and the returns."""
    names = ("prior", "prior/value", "prior/low", "prior/high", "prior/auc")
    return {
        "seed": run.seed,
        "env_steps": run.series("train", "prior")[:, 0].tolist(),
        **{name: run.series("train", name)[:, 1].tolist() for name in names},
        "true": true_course(run)[:, 1].tolist(),
        "demonstrated_success": run.demonstrated,
        "expert": run.expert,
        "returns": run.series("eval", "return")[:, 1].tolist(),
    }


def fresh(run: Path, held_out: Sequence[Episode]) -> dict:
    """What the last D makes of the last policy's greedy episodes, seen for the first time."""
    env = make("reach", 20, "cpu", seed=77, cameras=True)
    played = rollout(env, load_policy(run, device="cpu").act)
    reward = load_reward(run, device="cpu")
    expert, agent = FrameBank(held_out), FrameBank(played)
    prior = EstimatedPrior("bbe")
    prior(
        Evidence(
            held_out_positive_logits=reward.success_logits(expert.every()),
            held_out_episodes=expert.episodes,
            unlabeled_logits=reward.success_logits(agent.every()),
            unlabeled_episodes=agent.episodes,
        )
    )
    assert prior.latest is not None, "there was evidence"
    told = {name: getattr(prior.latest, name) for name in ("value", "low", "high", "auc")}
    solved = torch.stack([one.success for one in played if one.success is not None])
    told |= {"success": float(solved.double().mean()), "rests_at": resting_place(played)}
    return {f"fresh/{name}": value for name, value in told.items()}


def resting_place(episodes: Sequence[Episode]) -> list[float]:
    """Mean position over the second halves, in centimetres from the disc's centre."""
    seen = [episode.state for episode in episodes if episode.state is not None]
    halves = torch.stack([state[len(state) // 2 :, :2] for state in seen])
    return [round(100 * ARENA * value, 1) for value in halves.mean(dim=(0, 1)).tolist()]


if __name__ == "__main__":
    main(tyro.cli(Args))
