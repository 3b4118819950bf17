# SPDX-License-Identifier: Apache-2.0
"""Which view of a frame should a network learn from, and be scored on?

    python benchmarks/views.py walker --out results/views

fits r_φ on a task's annotated episodes with each candidate view and measures it on held-out
episodes: scored as `View.scored` does, on whole frames, and as the mean of the centre and the four
corner windows. On CUDA it also times a scoring pass of each view against one of whole frames.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from torch import Tensor

from pureward.data.dataset import read_dataset
from pureward.data.draw import draw as draw_frames
from pureward.data.episodes import HELD_OUT, TRAIN
from pureward.data.frames import FrameBank
from pureward.files import write_json
from pureward.rewards.arithmetic import logits
from pureward.rewards.network import NetworkConfig
from pureward.rewards.regression import RewardModel, RewardModelConfig
from pureward.rewards.view import PARAMETERS, Draw, View, apply, draw
from pureward.runs.machine import made_with

CANDIDATES = {
    "window of 0.8 (a, c)": View(flip=False),
    "shifts of whole frames (b)": View(flip=False, crop=1.0),
    "whole frames": View(flip=False, crop=1.0, shift=0.0),
}


@dataclass(frozen=True, kw_only=True)
class Args:
    """What is fitted."""

    task: Annotated[str, tyro.conf.Positional] = "walker"
    stack: int = 0
    """Consecutive frames in a sample; 0 is 2 for the walker and 1 for others."""
    every: int = 4
    """Take one frame in so many."""
    epochs: int = 10
    learning_rate: float = 1e-3
    seeds: int = 3
    device: str = "cuda" if torch.cuda.is_available() else "cpu"
    out: Path = Path("results/views")
    """Folder for TASK.json."""


def loaded(args: Args, split: str) -> tuple[Tensor, Tensor]:
    """Frames and rewards of a split."""
    chosen = read_dataset(Path(f"datasets/{args.task}/annotations")).split(split)
    stack = args.stack or (2 if args.task == "walker" else 1)
    drawn = draw_frames(chosen, args.task, args.device)
    bank = FrameBank(drawn, stack=stack, device=args.device)
    return bank.every()[:: args.every], bank.rewards[:: args.every]


def window(frames: Tensor, side: float, top: float, left: float) -> Tensor:
    """Frames cut to a window and resized, as bytes."""
    view = View.only(crop=side)
    parameters = draw(frames.shape, view, device=frames.device).parameters.clone()
    parameters[:, PARAMETERS.index("top")] = top
    parameters[:, PARAMETERS.index("left")] = left
    shown = apply(frames, Draw(parameters=parameters, noise=None), view)
    return (shown * 255).round().to(torch.uint8)


@torch.no_grad()
def whole(model: RewardModel, frames: Tensor) -> Tensor:
    """Predictions on frames taken as they come, whatever the view."""
    network = model.networks[0].eval()
    return torch.cat([network(part) for part in frames.split(512)])


def scorings(model: RewardModel, frames: Tensor) -> dict[str, Tensor]:
    """Predictions by each way of scoring."""
    places = [(0.1, 0.1), (0.0, 0.0), (0.0, 0.2), (0.2, 0.0), (0.2, 0.2)]
    five = [whole(model, window(frames, 0.8, *place)) for place in places]
    return {
        "as the view scores": model.predict(frames),
        "whole frames": whole(model, frames),
        "mean of five windows": torch.stack(five).mean(0),
    }


def measured(predicted: Tensor, rewards: Tensor) -> dict[str, float]:
    """Error, correlation and bias where the truth is high."""
    good = rewards > 0.9
    return {
        "error": float((predicted - rewards).square().mean()),
        "correlation": float(torch.corrcoef(torch.stack([predicted, rewards]))[0, 1]),
        "mean where above 0.9": float(predicted[good].mean()) if good.any() else float("nan"),
        "truth there": float(rewards[good].mean()) if good.any() else float("nan"),
        "bias": float((predicted - rewards).mean()),
    }


def fitted(args: Args, view: View, seed: int, data: dict[str, Any]) -> dict[str, Any]:
    """Fit one view on one seed and measure it."""
    frames, rewards = data[TRAIN]
    _, channels, height, width = frames.shape
    network = NetworkConfig(frame_channels=channels, height=height, width=width, view=view)
    config = RewardModelConfig(
        network=network, learning_rate=args.learning_rate, epochs=args.epochs, decay=True,
        batch_size=128, held_out=0.0,
    )  # fmt: skip
    model = RewardModel(config, device=args.device, seed=seed)
    model.fit(frames, rewards)
    seen, truth = data[HELD_OUT]
    told = {name: measured(p, truth) for name, p in scorings(model, seen).items()}
    rng = torch.Generator(args.device).manual_seed(0)
    return {"seed": seed, "scored": told, "as trained": float(as_trained(model, frames, rng)),
            "trained as scored": float(model.predict(frames[:2048]).mean())}  # fmt: skip


@torch.no_grad()
def as_trained(model: RewardModel, frames: Tensor, rng: torch.Generator) -> Tensor:
    """Mean prediction of trained frames in random views."""
    from pureward.rewards.arithmetic import random_logits

    return random_logits(model.networks[0].eval(), frames[:2048], rng, model.arithmetic).mean()


def pass_ratio(view: View, frames: Tensor) -> float:
    """Time of a scoring pass in a view over one of whole frames, CUDA only."""
    _, channels, height, width = frames.shape
    times = []
    for one in (View.off(), view):
        network = NetworkConfig(frame_channels=channels, height=height, width=width, view=one)
        model = RewardModel(RewardModelConfig(network=network), device="cuda")
        net = model.networks[0].eval()
        batch = frames[:1].expand(2048, -1, -1, -1).contiguous()
        rounds = []
        with torch.no_grad():
            for turn in range(60):
                torch.cuda.synchronize()
                began = time.perf_counter()
                for _ in range(5):
                    logits(net, batch, model.arithmetic)
                torch.cuda.synchronize()
                if turn >= 10:
                    rounds.append(time.perf_counter() - began)
        times.append(sorted(rounds)[len(rounds) // 2])
    return times[1] / times[0]


def main(args: Args) -> None:
    """Fit, measure, print and write."""
    data = {split: loaded(args, split) for split in (TRAIN, HELD_OUT)}
    found: dict[str, Any] = {
        "command": f"python benchmarks/views.py {args.task}",
        **made_with(torch.device(args.device)),
        "variance": float(data[HELD_OUT][1].var()),
        "frames": {split: len(rewards) for split, (_, rewards) in data.items()},
        "views": {},
    }
    for name, view in CANDIDATES.items():
        runs = [fitted(args, view, seed, data) for seed in range(args.seeds)]
        found["views"][name] = {"runs": runs}
        if args.device == "cuda":
            found["views"][name]["pass ratio"] = pass_ratio(view, data[TRAIN][0])
        for way in runs[0]["scored"]:
            keys = runs[0]["scored"][way]
            means = {k: sum(r["scored"][way][k] for r in runs) / len(runs) for k in keys}
            shown = ", ".join(f"{k} {v:.3f}" for k, v in means.items())
            print(f"{name:28} {way:22} {shown}", flush=True)
        print(f"{name:28} trained frames {[round(r['as trained'], 3) for r in runs]} as trained, "
              f"{[round(r['trained as scored'], 3) for r in runs]} as scored; pass ratio "
              f"{found['views'][name].get('pass ratio', float('nan')):.3f}")  # fmt: skip
    write_json(args.out / f"{args.task}.json", json.loads(json.dumps(found)))


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
