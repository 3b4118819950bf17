# SPDX-License-Identifier: Apache-2.0
"""Discriminator update and scoring on one GPU, step by step from plain to fused.

    python benchmarks/discriminator.py --out results/reward --budget-seconds 240
    python benchmarks/discriminator.py --only fused --tune-seconds 40

Every step is timed on 256 + 256 frames of 6×64×64 with full augmentation, and its logits
and gradients are compared with float32 ones on the same weights and frames. What fails is told
in the step's row, and the report is written after every stage. `--cpu-smoke` runs the plain
steps at toy size without a GPU.
"""

import json
import platform
import subprocess
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pureward.capture import CapturedCall
from pureward.rewards import view as augmentation
from pureward.rewards.arithmetic import logits
from pureward.rewards.compose import imitation_reward
from pureward.rewards.config import RewardConfig
from pureward.rewards.discriminator import Discriminator
from pureward.rewards.network import NetworkConfig, ResidualCNN
from pureward.rewards.risks.pu import nnpu

CEILING = 3.0


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to measure."""

    out: Path = Path("results/reward")
    """Folder for discriminator.json and discriminator_profile.txt."""
    budget_seconds: float = 240.0
    """Start no further step after this long."""
    batch: int = 256
    """Positive frames, and as many unlabeled."""
    score_batch: int = 4096
    """Frames scored a call."""
    only: str = ""
    """Run the steps whose name holds this; rows of the others stay as they are in `base`."""
    base: Path = Path("results/reward/discriminator.json")
    """Earlier report, for `only`."""
    commit: str = ""
    """What is measured, where git cannot tell."""
    cpu_smoke: bool = False
    """Toy size on the CPU, to check this script."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One row of the table: which improvements are on."""

    name: str
    arithmetic: str = "bfloat16"
    one_batch: bool = True
    captured: bool = True
    searched: bool = True  # cuDNN tries its algorithms
    compiled: tuple[str, ...] = field(default=())


PLAIN = Step(name="", one_batch=False, captured=False, searched=False)
FUSED = Step(name="fused augmentation and convolutions", arithmetic="fused")
STEPS = [
    replace(PLAIN, name="float32, eager", arithmetic="float32"),
    replace(PLAIN, name="bfloat16"),
    replace(PLAIN, name="+ one batch", one_batch=True),
    Step(name="+ CUDA graph", searched=False),
    Step(name="+ cuDNN search"),
    FUSED,
    Step(name="+ compiled augmentation", compiled=("augment",)),
    Step(name="+ compiled network", compiled=("augment", "network")),
]


def frames_like_scenes(count: int, channels: int, device: str, seed: int, tint: int) -> Tensor:
    """Smooth random frames; `tint` makes two sets that a discriminator can tell apart."""
    rng = torch.Generator(device).manual_seed(seed)
    coarse = torch.rand(count, channels, 8, 8, device=device, generator=rng)
    smooth = F.interpolate(coarse, size=(64, 64), mode="bilinear", align_corners=False)
    return (smooth * (255 - tint)).add_(tint).to(torch.uint8)


def discriminator(step: Step, device: str, rate: float = 1e-5) -> Discriminator:
    config = RewardConfig(network=NetworkConfig(frame_channels=6), learning_rate=rate)
    made = Discriminator(
        config,
        device=device,
        captured=step.captured,
        arithmetic=step.arithmetic,  # type: ignore[arg-type]
    )
    if not step.one_batch:
        made._training_logits = partial(separately, made)  # type: ignore[method-assign]
    if "network" in step.compiled:
        made.network.embed = torch.compile(made.network.embed, dynamic=False)  # type: ignore
    return made


def separately(made: Discriminator, both: Tensor) -> Tensor:
    """A pass for each half of the batch."""
    made.network.train()
    with torch.autocast("cuda", torch.bfloat16, enabled=made.arithmetic == "bfloat16"):
        parts = [
            made.network.embed(
                augmentation.viewed(frames, made.config.network.view, made.generator)
            )
            for frames in both.chunk(2)
        ]
    return torch.cat([made.network.read_out(part, made.generator) for part in parts])


def milliseconds(call: Callable[[], object], device: str, repeats: int) -> float:
    """Median of five rounds of back-to-back calls, as a training loop makes them."""
    call()
    rounds = []
    for _ in range(5):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        if device == "cuda":
            torch.cuda.synchronize()
        rounds.append((time.perf_counter() - start) / repeats * 1e3)
    return sorted(rounds)[2]


def agreement(arithmetic: str, trained: ResidualCNN, p: Tensor, u: Tensor) -> dict[str, float]:
    """How far an arithmetic's logits, rewards and gradients are from float32's."""
    trained.eval()
    frames = torch.cat([p, u])
    results = {}
    for name in ("float32", arithmetic):
        trained.zero_grad()
        out = logits(trained, frames, name)  # type: ignore[arg-type]
        nnpu(out[: len(p)], out[len(p) :], prior=0.5).objective.backward()
        flat = torch.cat([w.grad.flatten() for w in trained.parameters() if w.grad is not None])
        results[name] = (out.detach(), flat)
    (exact, exact_gradient), (ours, gradient) = results["float32"], results[arithmetic]
    rewards = [imitation_reward(x, ceiling=CEILING) for x in (exact, ours)]
    return {
        "logit_spread": float(exact.std()),
        "largest_logit_error": float((exact - ours).abs().max()),
        "largest_reward_error": float((rewards[0] - rewards[1]).abs().max()),
        "gradient_cosine": float(F.cosine_similarity(exact_gradient, gradient, dim=0)),
        "branches_agreeing": branches_agreeing(exact, ours, len(p)),
    }


def branches_agreeing(exact: Tensor, ours: Tensor, split: int) -> float:
    """Share of 400 resampled minibatches, over priors, on which both take the same branch."""
    rng = torch.Generator(exact.device).manual_seed(7)
    same = 0
    for trial in range(400):
        prior = 0.1 + 0.8 * trial / 399
        rows = [
            torch.randint(low, high, (64,), device=exact.device, generator=rng)
            for low, high in ((0, split), (split, len(exact)))
        ]
        flags = [nnpu(x[rows[0]], x[rows[1]], prior=prior).violated for x in (exact, ours)]
        same += int(flags[0] == flags[1])
    return same / 400


def measure(
    step: Step, args: Args, device: str, trained: ResidualCNN | None, row: dict[str, Any]
) -> None:
    """Fill a step's row stage by stage, so that a later failure leaves the earlier figures."""
    torch.backends.cudnn.benchmark = step.searched
    torch.backends.cudnn.allow_tf32 = False
    apply = augmentation.apply
    if "augment" in step.compiled:
        augmentation.apply = torch.compile(augmentation.apply, dynamic=False)
    try:
        p = frames_like_scenes(args.batch, 6, device, 1, 40)
        u = frames_like_scenes(args.batch, 6, device, 2, 0)
        made = discriminator(step, device)
        started = time.perf_counter()
        made.update(p, u)
        row["set_up_seconds"] = round(time.perf_counter() - started, 1)
        repeats = 2 if device == "cpu" else 100
        row["update_ms"] = milliseconds(lambda: made.update(p, u), device, repeats)
        if device == "cuda" and step.captured:
            assert made._capture is not None
            row["replay_ms"] = milliseconds(made._capture.graph.replay, device, repeats)
        row["scored_per_second"] = scored_per_second(made, args, device, step.captured)
        if trained is not None:
            row |= agreement(step.arithmetic, trained, p, u)
    finally:
        augmentation.apply = apply


def scored_per_second(made: Discriminator, args: Args, device: str, captured: bool) -> float:
    made.network.eval()
    frames = frames_like_scenes(args.score_batch, 6, device, 3, 0)

    @torch.no_grad()
    def score(x: Tensor) -> Tensor:
        return logits(made.network, x, made.arithmetic)

    captured = captured and device == "cuda"
    call = CapturedCall(score, (frames,)) if captured else score
    repeats = 20 if captured else 3
    return args.score_batch / milliseconds(lambda: call(frames), device, repeats) * 1e3


def a_trained_network(args: Args, device: str, step: Step) -> ResidualCNN:
    """A discriminator after some training, so that logits spread and branches differ."""
    made = discriminator(step, device, rate=3e-4)
    for seed in range(3 if device == "cpu" else 200):
        p = frames_like_scenes(args.batch, 6, device, 10 + seed, 40)
        u = frames_like_scenes(args.batch, 6, device, 1000 + seed, 20 * (seed % 3))
        made.update(p, u)
    return made.network


def profile(step: Step, args: Args, path: Path) -> None:
    """Write the kernels of one captured update and one scoring call, by time."""
    made = discriminator(step, "cuda")
    p = frames_like_scenes(args.batch, 6, "cuda", 1, 40)
    made.update(p, p)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        for _ in range(10):
            made.update(p, p)
        torch.cuda.synchronize()
    table = seen.key_averages().table(
        sort_by="self_cuda_time_total", row_limit=60, max_name_column_width=70
    )
    path.write_text(f"ten updates: {step.name}\n{table}\n")
    print(table, flush=True)


def versions(args: Args) -> dict[str, str]:
    said = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    found = {"torch": torch.__version__, "python": platform.python_version()}
    found["commit"] = args.commit or said.stdout.strip()
    if torch.cuda.is_available():
        found["device"] = torch.cuda.get_device_name()
        found["cudnn"] = str(torch.backends.cudnn.version())
    return found


def main(args: Args) -> None:
    started = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    device = "cpu" if args.cpu_smoke else "cuda"
    command = "python benchmarks/discriminator.py" + (f" --only {args.only}" if args.only else "")
    report: dict[str, Any] = {"command": command} | versions(args)
    report |= {"batch": args.batch, "score_batch": args.score_batch}
    path = args.out / "discriminator.json"
    arithmetic = "bfloat16" if device == "cuda" else "float32"
    plain = Step(name="training", arithmetic=arithmetic, captured=device == "cuda")
    trained: list[ResidualCNN] = []
    report |= failure("training", lambda: trained.append(a_trained_network(args, device, plain)))
    rows: dict[str, Any] = earlier_rows(args)
    for step in STEPS if device == "cuda" else STEPS[:1]:
        if args.only not in step.name:
            continue
        row: dict[str, Any] = asdict(step) | {"commit": report["commit"]}
        if time.monotonic() - started > args.budget_seconds:
            row["skipped"] = "out of time"
        else:
            network = trained[0] if trained else None
            row |= failure("step", partial(measure, step, args, device, network, row))
        rows[step.name] = row
        print(json.dumps(row), flush=True)
        report["steps"] = list(rows.values())
        path.write_text(json.dumps(report, indent=2) + "\n")
    if device == "cuda":
        where = args.out / "discriminator_profile.txt"
        report |= failure("profile", lambda: profile(FUSED, args, where))
        path.write_text(json.dumps(report, indent=2) + "\n")


def earlier_rows(args: Args) -> dict[str, Any]:
    """Rows of an earlier report, which `only` leaves as they are."""
    if not args.only or not args.base.exists():
        return {}
    return {row["name"]: row for row in json.loads(args.base.read_text())["steps"]}


def failure(stage: str, call: Callable[[], object]) -> dict[str, str]:
    """Run a stage; what it raised is a cell of the report, not the end of the run."""
    try:
        call()
    except Exception as error:
        traceback.print_exc()
        return {f"{stage}_failed": f"{type(error).__name__}: {error}"[:500]}
    return {}


if __name__ == "__main__":
    import tyro

    main(tyro.cli(Args))
