# SPDX-License-Identifier: Apache-2.0
"""How well r_φ knows frames it has not seen, by how it was fitted. On a CPU take fewer frames.

python benchmarks/reward_fit.py --task lift --data datasets/lift/annotations --every 2 \
    --fit rate=1e-4 rate=1e-3,decay,batch=64
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from pureward.data.dataset import read_dataset
from pureward.data.draw import draw
from pureward.data.episodes import FAILURE, HELD_OUT, TRAIN
from pureward.data.frames import FrameBank
from pureward.files import write_json
from pureward.rewards.network import NetworkConfig
from pureward.rewards.regression import Pass, RewardModel, RewardModelConfig
from pureward.runs.machine import made_with

Frames = tuple[Tensor, Tensor, Tensor]


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="lift")
    parser.add_argument("--data", type=Path, required=True, help="annotated episodes")
    parser.add_argument("--stack", type=int, default=1, help="consecutive frames in a sample")
    parser.add_argument("--every", type=int, default=1, help="take one frame in so many")
    parser.add_argument(
        "--fit", nargs="+", default=["rate=1e-4"], help="rate, batch, passes, decay"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, help="JSON file for the numbers")
    return parser.parse_args()


def loaded(args: argparse.Namespace, split: str) -> Frames:
    """Frames, rewards and episode numbers of a split."""
    chosen = read_dataset(args.data).split(split)
    bank = FrameBank(draw(chosen, args.task, args.device), stack=args.stack, device=args.device)
    frames, rewards, numbers = bank.every(), bank.rewards, bank.episodes
    return frames[:: args.every], rewards[:: args.every], numbers[:: args.every]


def settings(text: str, network: NetworkConfig) -> RewardModelConfig:
    """A fit as it is written on the command line."""
    given: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        given[name] = value
    own = RewardModelConfig()
    return replace(
        own,
        network=network,
        learning_rate=float(given.get("rate", own.learning_rate)),
        batch_size=int(given.get("batch", own.batch_size)),
        epochs=int(given.get("passes", own.epochs)),
        decay="decay" in given,
        held_out=0.0,  # the dataset has its own
    )


def judged(model: RewardModel, frames: Tensor, rewards: Tensor) -> dict[str, float]:
    """Mean squared error and correlation on frames as stored."""
    predicted = model.predict(frames, batch_size=256)
    pair = torch.stack([predicted, rewards.to(predicted)])
    return {
        "error": float((pair[0] - pair[1]).square().mean()),
        "correlation": float(torch.corrcoef(pair)[0, 1]),
    }


def fitted(text: str, data: dict[str, Frames], device: str) -> dict[str, object]:
    """Fit, and judge on every split."""
    frames, rewards, numbers = data[TRAIN]
    _, channels, height, width = frames.shape
    network = NetworkConfig(frame_channels=channels, height=height, width=width)
    model = RewardModel(settings(text, network), device=device)
    began = time.perf_counter()

    def tell(one: Pass) -> None:
        print(f"  {text}: pass {one.epoch}, error {one.fitting_error:.4f}", flush=True)

    report = model.fit(frames, rewards, episodes=numbers, progress=tell)
    row: dict[str, object] = {
        "fit": text,
        "seconds": time.perf_counter() - began,
        "distorted": {"error": report.passes[-1].fitting_error},
    }
    row |= {split: judged(model, some, true) for split, (some, true, _) in data.items()}
    return row


def main() -> None:
    """Fit all that is asked for; print and write what came of it."""
    args = arguments()
    data = {split: loaded(args, split) for split in (TRAIN, HELD_OUT, FAILURE)}
    found = {
        **made_with(torch.device(args.device)),
        "variance": {split: float(rewards.var()) for split, (_, rewards, _) in data.items()},
        "frames": {split: len(rewards) for split, (_, rewards, _) in data.items()},
        "fits": [fitted(text, data, args.device) for text in args.fit],
    }
    print(json.dumps(found, indent=1))
    if args.out:
        write_json(args.out, found)


if __name__ == "__main__":
    main()
