# SPDX-License-Identifier: Apache-2.0
"""Updates and scores of D, and the random views that it learns from.

    python benchmarks/discriminator.py                    # on a CPU: views beside Kornia's
    python benchmarks/discriminator.py --device cuda      # updates and scores, plain to fused
    python benchmarks/discriminator.py --device cuda --only fused

On a CPU the same distortions by Kornia take turns with ours; figures go to augment.json. On CUDA
every step of `STEPS` is timed on 256 + 256 frames of 6×64×64 with full augmentation, and its logits
and gradients are compared with float32 ones on the same weights and frames. What fails is told in
the step's row; discriminator.json is written after every step, kernels of the fused step go to
discriminator_profile.txt.
"""

import json
import platform
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Literal

import torch
import torch.nn.functional as F
import tyro
from torch import Tensor

from pureward.capture import CapturedCall
from pureward.rewards import view as augmentation
from pureward.rewards.arithmetic import logits
from pureward.rewards.compose import imitation_reward
from pureward.rewards.config import RewardConfig
from pureward.rewards.discriminator import Discriminator
from pureward.rewards.network import NetworkConfig, ResidualCNN
from pureward.rewards.risks.pu import nnpu
from timing import commit, milliseconds

CEILING = 3.0


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to measure."""

    device: Literal["cpu", "cuda"] = "cpu"
    """"cpu" for random views beside Kornia, "cuda" for updates and scores."""
    out: Path = Path("results/reward")
    """Folder for the files."""
    views: int = 128
    """Frames of a batch of views, on a CPU."""
    repeats: int = 15
    """Timed batches of views of each, on a CPU; the medians are compared."""
    threads: int = 2
    """CPU threads for the views."""
    budget_seconds: float = 240.0
    """On CUDA, start no further step after this long."""
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
    smoke: bool = False
    """With `--device cuda`, run the first step on the CPU to check this script."""


# On a CPU: random views beside Kornia's.


def beside_kornia(args: Args) -> dict[str, Any]:
    import kornia
    import kornia.augmentation as K

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    view = augmentation.View()
    area = view.crop**2
    theirs = K.ImageSequential(
        K.RandomHorizontalFlip(p=0.5),
        K.RandomResizedCrop((64, 64), scale=(area, area), ratio=(1.0, 1.0), p=1.0),
        K.ColorJiggle(view.brightness, view.contrast, view.saturation, view.hue, p=1.0),
        K.RandomGaussianNoise(std=view.noise / 255 / 3**0.5, p=1.0),  # of the same variance
    )
    frames = torch.randint(0, 256, (args.views, 3, 64, 64), dtype=torch.uint8)
    calls = {
        "pureward": lambda: augmentation.viewed(frames, view),
        "kornia": lambda: theirs(frames.float() / 255).clamp(0, 1),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(args.repeats + 2):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            if repeat >= 2:  # the first calls set up threads and caches
                times[name].append(1e3 * (time.perf_counter() - began))
    medians = {name: median(values) for name, values in times.items()}
    return {
        "command": "python benchmarks/discriminator.py",
        "batch": args.views,
        "shape": [3, 64, 64],
        "threads": args.threads,
        "repeats": args.repeats,
        "milliseconds": {name: round(value, 2) for name, value in medians.items()},
        "fastest_milliseconds": {name: round(min(found), 2) for name, found in times.items()},
        "times_faster": round(medians["kornia"] / medians["pureward"], 2),
        "torch": torch.__version__,
        "kornia": kornia.__version__,
        "machine": platform.machine(),
        "commit": args.commit or commit(),
    }


# On CUDA: updates and scores.


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


def frames_like_scenes(count: int, device: str, seed: int, tint: int) -> Tensor:
    """Smooth random frames; `tint` makes two sets that a discriminator can tell apart."""
    rng = torch.Generator(device).manual_seed(seed)
    coarse = torch.rand(count, 6, 8, 8, device=device, generator=rng)
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
        p = frames_like_scenes(args.batch, device, 1, 40)
        u = frames_like_scenes(args.batch, device, 2, 0)
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
    frames = frames_like_scenes(args.score_batch, device, 3, 0)

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
        p = frames_like_scenes(args.batch, device, 10 + seed, 40)
        u = frames_like_scenes(args.batch, device, 1000 + seed, 20 * (seed % 3))
        made.update(p, u)
    return made.network


def profile(step: Step, args: Args, path: Path) -> None:
    """Write the kernels of ten captured updates, by time."""
    made = discriminator(step, "cuda")
    p = frames_like_scenes(args.batch, "cuda", 1, 40)
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


def by_step(args: Args) -> None:
    """Measure every step, and write the report after each."""
    started = time.monotonic()
    device = "cpu" if args.smoke else "cuda"
    report: dict[str, Any] = {
        "command": "python benchmarks/discriminator.py --device cuda"
        + (f" --only {args.only}" if args.only else ""),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": args.commit or commit(),
        "batch": args.batch,
        "score_batch": args.score_batch,
    }
    if device == "cuda":
        report["device"] = torch.cuda.get_device_name()
        report["cudnn"] = str(torch.backends.cudnn.version())
    arithmetic = "bfloat16" if device == "cuda" else "float32"
    plain = Step(name="training", arithmetic=arithmetic, captured=device == "cuda")
    trained: list[ResidualCNN] = []
    report |= failure("training", lambda: trained.append(a_trained_network(args, device, plain)))
    rows: dict[str, Any] = {}
    if args.only and args.base.exists():
        rows = {row["name"]: row for row in json.loads(args.base.read_text())["steps"]}
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
        write(args, "discriminator.json", report | {"steps": list(rows.values())})
    if device == "cuda":
        failed = failure(
            "profile", lambda: profile(FUSED, args, args.out / "discriminator_profile.txt")
        )
        write(args, "discriminator.json", report | {"steps": list(rows.values())} | failed)


def failure(stage: str, call: Callable[[], object]) -> dict[str, str]:
    """Run a stage; what it raised is a cell of the report, not the end of the run."""
    try:
        call()
    except Exception as error:
        traceback.print_exc()
        return {f"{stage}_failed": f"{type(error).__name__}: {error}"[:500]}
    return {}


def write(args: Args, name: str, report: dict[str, Any]) -> None:
    (args.out / name).write_text(json.dumps(report, indent=2) + "\n")


def main(args: Args) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    if args.device == "cuda":
        by_step(args)
        return
    report = beside_kornia(args)
    write(args, "augment.json", report)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
