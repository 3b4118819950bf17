# SPDX-License-Identifier: Apache-2.0
"""A discriminator that learns from buffers with a known share of success episodes.

Everything here is the library's own loop: a discriminator that descends on nnPU, scores of
demonstrations it never trains on against fresh episodes, and η̂ set every few updates.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

import pureward
from pureward.data.dataset import read_dataset
from pureward.data.draw import Painter
from pureward.data.episodes import FAILURE, TRAIN, Episode
from pureward.rewards.discriminator import Discriminator, DiscriminatorConfig
from pureward.rewards.methods import Choice, choose
from pureward.rewards.network import NetworkConfig
from pureward.rewards.priors.estimated import EstimatedPrior
from pureward.rewards.priors.prior import Evidence
from pureward.rewards.risks.variational import TOP
from pureward.rewards.view import View
from pureward.runs.collect import collect

INSTANTS = 20  # frames taken of an episode, evenly
BEGINNING = 0.1  # of an episode, left out: first states are the same in success and failure
HELD_OUT = 0.2  # share of the demonstrations
DEMONSTRATIONS = (200, 50)
KNOWN = 60  # failure episodes for `acc`, half to train on and half held out
BUFFER = 100  # episodes the discriminator trains on, and as many fresh ones for an estimate
SUCCESSES, FAILURES = DEMONSTRATIONS[0] + 2 * BUFFER, 2 * BUFFER


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is learned; a GPU affords the paper's network and whole frames."""

    shrink: int
    network: dict
    batch: int
    updates: int
    ask_every: int
    learning_rate: float
    view: View


SCALES = {
    "cpu": Scale(
        shrink=2,
        network={"stage_channels": (8, 16), "stage_blocks": 1},
        batch=32,
        updates=60,
        ask_every=20,
        learning_rate=1e-3,
        view=View.off(),
    ),
    "cuda": Scale(
        shrink=1,
        network={},
        batch=256,
        updates=1000,
        ask_every=50,
        learning_rate=1e-4,
        view=View(),
    ),
}


class Pool(NamedTuple):
    """Frames of whole episodes, (episodes, instants, channels, height, width) uint8."""

    successes: Tensor
    failures: Tensor


def episodes_of(task: str, data: Path | None, work: Path, device: str) -> list[Episode]:
    """Episodes of a dataset, or of an expert trained for this and left in a folder."""
    if data is None:
        data, run = work / f"{task}-episodes", work / f"{task}-expert"
        if not data.exists():
            pureward.train(pureward.preset(task, "fast", out=str(run), device=device))
            collect(
                task, run, data, episodes=SUCCESSES, held_out=0, failures=FAILURES, device=device
            )
    return list(read_dataset(data).episodes)


def drawn(task: str, episodes: list[Episode], device: str) -> Pool:
    """Frames of successes and failures, shrunk as the device's scale says."""
    painter, scale = Painter(task, device), SCALES[device]

    def frames(split: str) -> Tensor:
        kept = [e for e in episodes if e.split == split and e.succeeds == (split == TRAIN)]
        if not kept:
            raise SystemExit(f"the dataset has no {split} episodes; collect some")
        steps = len(kept[0])
        instants = torch.linspace(BEGINNING * steps, steps, INSTANTS).round().long().tolist()
        return torch.stack([_shrunk(painter.frames(e, instants), scale.shrink) for e in kept])

    pool = Pool(frames(TRAIN), frames(FAILURE))
    if len(pool.successes) < SUCCESSES or len(pool.failures) < FAILURES:
        raise SystemExit(
            f"mixtures need {SUCCESSES} success and {FAILURES} failure episodes, got "
            f"{len(pool.successes)} and {len(pool.failures)}; collect more"
        )
    return pool


def _shrunk(frames: Tensor, factor: int) -> Tensor:
    if factor == 1:
        return frames
    return F.avg_pool2d(frames.float(), factor).round().to(torch.uint8)


class Phase(NamedTuple):
    """A stretch of learning on a buffer with a known share of successes."""

    share: float
    updates: int


def course(
    pool: Pool,
    phases: list[Phase],
    *,
    demonstrations: int = DEMONSTRATIONS[0],
    device: str,
    seed: int,
    look: Callable[[Tensor], Tensor] = lambda frames: frames,
    prior_name: str = "bbe",
    mixup_weight: float = 0.03,
) -> list[dict]:
    """Learn through the phases; return what was estimated, each time it was asked.

    Args:
        pool: episodes to make demonstrations and buffers of; none is in two of them.
        phases: shares of successes and how long each lasts.
        demonstrations: of which a share is held out.
        device: and with it the scale.
        seed: of the choice of episodes, the discriminator and the minibatches.
        look: what demonstrations are put through, to make them look different.
        prior_name: "bbe", "vpu", or "acc" with known failures.
        mixup_weight: λ of vpu.
    """
    scale, rng = SCALES[device], torch.Generator().manual_seed(seed)
    successes, failures = (part[torch.randperm(len(part), generator=rng)] for part in pool)
    shown, hidden = look(successes[:demonstrations]), successes[demonstrations:]
    held = round(HELD_OUT * demonstrations)
    choice = choose("nn-pugail", prior=prior_name, failures=prior_name == "acc")
    known, failures = failures.split(
        [KNOWN, len(failures) - KNOWN] if choice.takes_failures else [0, len(failures)]
    )
    discriminator = _discriminator(successes.shape[2:], choice, scale, mixup_weight, device, seed)
    prior, told = choice.prior, []
    assert isinstance(prior, EstimatedPrior)
    for phase in phases:
        buffer, fresh = _buffers(hidden, failures, phase.share, rng)
        trained_on = [shown[held:], buffer, *([known[::2]] if len(known) else [])]
        scored = [shown[:held], fresh, *([known[1::2]] if len(known) else [])]
        for update in range(1, phase.updates + 1):
            batches = (_minibatch(part, scale.batch, rng) for part in trained_on)
            discriminator.update(*(batch.to(device) for batch in batches))
            if update % scale.ask_every == 0:
                discriminator.set_prior(prior(_evidence(discriminator, scored)))
                assert prior.latest is not None
                told.append({"share": phase.share} | prior.latest._asdict())
        told[-1] |= _chances(discriminator, scored[0], fresh, phase.share)
    return told


def _discriminator(
    frame_shape: torch.Size, choice: Choice, scale: Scale, mixup: float, device: str, seed: int
) -> Discriminator:
    channels, height, width = frame_shape
    network = NetworkConfig(
        frame_channels=channels, height=height, width=width, view=scale.view, **scale.network
    )
    config = DiscriminatorConfig(
        network=network,
        learning_rate=scale.learning_rate,
        mixup_weight=mixup,
    )
    assert choice.risk is not None
    return Discriminator(config, risk=choice.risk, device=device, seed=seed)


def _chances(
    discriminator: Discriminator, held_out: Tensor, fresh: Tensor, share: float
) -> dict[str, float | None]:
    """Mean D on fresh successes and failures, and its top on held-out demonstrations."""
    good = round(share * BUFFER)
    of_demos, of_fresh = (
        discriminator.logits(part.flatten(0, 1)).sigmoid() for part in (held_out, fresh)
    )
    parts = of_fresh.split([good * INSTANTS, len(of_fresh) - good * INSTANTS])
    means = [float(part.mean()) if len(part) else None for part in parts]
    return {"top": float(of_demos.quantile(TOP)), "d_success": means[0], "d_failure": means[1]}


def _buffers(
    successes: Tensor, failures: Tensor, share: float, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Two sets of other episodes with this share of successes: to train on, and fresh."""
    good = round(share * BUFFER)
    s, f = (part[torch.randperm(len(part), generator=rng)] for part in (successes, failures))
    first = torch.cat([s[:good], f[: BUFFER - good]])
    second = torch.cat([s[good : 2 * good], f[BUFFER - good : 2 * (BUFFER - good)]])
    assert len(first) == len(second) == BUFFER
    return first, second


def _minibatch(episodes: Tensor, count: int, rng: torch.Generator) -> Tensor:
    rows = torch.randint(episodes.shape[0] * episodes.shape[1], (count,), generator=rng)
    return episodes.flatten(0, 1)[rows]


def _evidence(discriminator: Discriminator, sets: list[Tensor]) -> Evidence:
    """Scores of held-out demonstrations, of fresh episodes and, if given, of failures."""
    fields = ("held_out_positive_logits", "unlabeled_logits", "failure_logits")
    numbers = ("held_out_episodes", "unlabeled_episodes", "failure_episodes")
    found: dict[str, Tensor] = {}
    for field, number, episodes in zip(fields, numbers, sets, strict=False):
        found[field] = discriminator.logits(episodes.flatten(0, 1))
        of = torch.arange(len(episodes), device=discriminator.device)
        found[number] = of.repeat_interleave(episodes.shape[1])
    return Evidence(**found)  # pyright: ignore[reportArgumentType]
