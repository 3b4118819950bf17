# SPDX-License-Identifier: Apache-2.0
"""Can two sets of frames be told apart where behaviour is the same?

A discriminator learns whatever separates demonstrations from the agent's frames: a codec, a colour,
a border, a clock in the picture. Here a linear classifier looks at one frame per episode of either
set, before the first action. It is cross-validated, and its AUC is compared with that of the
same frames with their labels permuted. One solution serves all permutations, since only the
targets of the regression change.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from pureward.errors import InputError
from pureward.rewards.priors.estimators import auc

#: Frames needed of each set.
FEWEST_FRAMES = 10
_MOST_FRAMES = 256  # of each set
_FOLDS = 5
_PERMUTATIONS = 2000
#: A leak is reported if fewer than this share of permutations separates the frames as well.
SIGNIFICANT = 0.002
_RIDGE = 0.1
_SHIFT, _LEAST_SHIFT = 0.01, 1.25  # of most pixels: share of the mean, and grey levels
_CLEAR, _UNLIKE, _SMALL = 10.0, 4.0, 0.05  # standard errors, and share of the pixels
_EDGE = 2  # pixels of the border, which the other cues leave out
#: Grey levels; below it a difference is rounding.
LEAST_SPREAD = 0.25
_FULL_SCALE = 50.0  # of a share, in grey levels
_BLOCK = 8  # side of the blocks of JPEG and most video codecs

#: Cue → what to do about it.
REMEDIES = {
    "border": "the outermost pixels differ: crop both sides alike, before they are resized",
    "colour": "colours differ: use the same camera settings and conversion of colours for both",
    "texture": "compression, scaling, noise or a conversion of colours differ: store both with the "
    "same lossless codec, and resize both from the same size by the same filter",
    "picture": "something in the picture differs, or the first states do: crop or cover it, or "
    "start both from the same states",
}


@dataclass(frozen=True, kw_only=True)
class Cue:
    """How well one property of the frames separates them."""

    name: str
    """A key of `REMEDIES`."""
    auc: float
    """Cross-validated; 0.5 is chance."""
    chance: float
    """The AUC that permuted labels exceed in a share `SIGNIFICANT` of cases, by any cue."""
    scores: Tensor
    """Held-out score of each frame, high for the first set, (frames,)."""
    margin: float
    """Difference of the mean scores of both sets, in standard deviations."""

    @property
    def leaks(self) -> bool:
        """Whether the frames can be told apart by it."""
        return self.auc > self.chance


@dataclass(frozen=True, kw_only=True)
class LeakReport:
    """Whether two sets of frames can be told apart, and by what."""

    cues: tuple[Cue, ...]
    """The clearest first."""
    frames: tuple[Tensor, Tensor]
    """The frames that were compared, uint8 (frames, channels, height, width)."""

    @property
    def found(self) -> bool:
        """Whether there is a leak."""
        return self.cues[0].leaks

    def __str__(self) -> str:
        best = self.cues[0]
        chance = f"AUC {best.auc:.2f}, by chance at most {best.chance:.2f}"
        if not self.found:
            return f"no leak found: frames cannot be told apart before anybody acts ({chance})"
        others = [f"{cue.name} {cue.auc:.2f}" for cue in self.cues[1:] if cue.leaks]
        also = f"; also by {', '.join(others)}" if others else ""
        return (
            f"leak: frames can be told apart by their {best.name} before anybody acts ({chance}"
            f"{also}); likely {REMEDIES[best.name]}"
        )


def find_leak(first: Tensor, second: Tensor, *, seed: int = 0) -> LeakReport:
    """Test whether two sets of frames can be told apart.

    Args:
        first: one frame of each episode of a set, uint8 (frames, channels, height, width), where
            the behaviour is the same in both sets.
        second: the same of the other set.
        seed: of folds and permutations.
    """
    for name, frames in (("first", first), ("second", second)):
        if len(frames) < FEWEST_FRAMES:
            raise InputError(
                f"a leak check needs a frame of at least {FEWEST_FRAMES} episodes on either side, "
                f"got {len(frames)} on the {name}; bring more"
            )
    if first.shape[1:] != second.shape[1:]:
        raise InputError(
            f"frames must have one shape, got {tuple(first.shape[1:])} and "
            f"{tuple(second.shape[1:])}; choose the same images in both"
        )
    rng = torch.Generator().manual_seed(seed)
    first, second = (
        side[torch.randperm(len(side), generator=rng)[:_MOST_FRAMES]] for side in (first, second)
    )
    frames = torch.cat([first, second]).float()
    is_first = torch.arange(len(frames)) < len(first)
    orders = [torch.randperm(len(frames), generator=rng) for _ in range(_PERMUTATIONS)]
    labels = torch.stack([is_first, *(is_first[order] for order in orders)]).T.double()
    folds = torch.randperm(len(frames), generator=rng) % _FOLDS
    found = {}
    for name, features in _FEATURES.items():
        scores = _held_out_scores(features(frames), labels, folds)
        found[name] = scores[:, 0], _aucs(scores, labels)
    best_by_chance = torch.stack([aucs[1:] for _, aucs in found.values()]).amax(0)
    chance = float(torch.quantile(best_by_chance, 1 - SIGNIFICANT))
    cues = [
        Cue(
            name=name,
            auc=float(aucs[0]),
            chance=chance,
            scores=scores,
            margin=_margin(scores[is_first], scores[~is_first]),
        )
        for name, (scores, aucs) in found.items()
    ]
    likely = _likely_cue(_inner(first.float()), _inner(second.float()))

    def clarity(cue: Cue) -> tuple[bool, bool, float]:
        return cue.leaks, cue.name == likely, cue.margin if cue.leaks else cue.auc

    cues.sort(key=clarity, reverse=True)
    return LeakReport(cues=tuple(cues), frames=(first, second))


def _likely_cue(first: Tensor, second: Tensor) -> str:
    """The cue to name first, since other cues see it too; "" for the one of the largest margin.

    Colours that shift move most pixels. A clock or a logo changes few pixels, by much.
    """
    change = first.mean(0) - second.mean(0)
    shift = change.flatten(1).median(1).values.abs()
    if ((shift > _SHIFT * second.mean((0, 2, 3))) & (shift > _LEAST_SHIFT)).any():
        return "colour"
    error = first.var(0) / len(first) + second.var(0) / len(second) + LEAST_SPREAD**2
    size = (change.abs() / error.sqrt()).amax(0)
    local = size.max() > _CLEAR and (size > _UNLIKE).float().mean() < _SMALL
    return "picture" if local else ""


def _held_out_scores(features: Tensor, labels: Tensor, folds: Tensor) -> Tensor:
    """Ridge regression of every column of labels, scored on the fold left out, (n, columns)."""
    centred = features.double() - features.double().mean(0)
    scaled = centred / centred.square().mean(0).sqrt().clamp(min=LEAST_SPREAD)
    kernel = scaled @ scaled.T / scaled.shape[1]
    kernel /= kernel.diagonal().mean().clamp(min=1e-12)
    scores = torch.zeros_like(labels)
    for fold in range(_FOLDS):
        out, rest = (folds == fold).nonzero()[:, 0], (folds != fold).nonzero()[:, 0]
        targets = labels[rest] - labels[rest].mean(0)
        inner = kernel[rest][:, rest] + _RIDGE * torch.eye(len(rest), dtype=torch.float64)
        scores[out] = kernel[out][:, rest] @ torch.linalg.solve(inner, targets)
    return scores


def _aucs(scores: Tensor, labels: Tensor) -> Tensor:
    """AUC of every column of scores for its own column of labels, by the sum of ranks."""
    ranks = scores.argsort(0).argsort(0).double() + 1
    count = labels[:, 0].sum()
    others = len(labels) - count
    values = ((ranks * labels).sum(0) - count * (count + 1) / 2) / (count * others)
    chosen = labels[:, 0] > 0
    values[0] = auc(scores[chosen, 0], scores[~chosen, 0])  # ties count one half
    return values


def _margin(first: Tensor, second: Tensor) -> float:
    spread = ((first.var() + second.var()) / 2).sqrt().clamp(min=1e-9)
    return float((first.mean() - second.mean()) / spread)


def _inner(frames: Tensor) -> Tensor:
    return frames[..., _EDGE:-_EDGE, _EDGE:-_EDGE]


def _balanced(frames: Tensor) -> Tensor:
    """Frames with the same mean and spread of every channel, so that colour is a cue of its own."""
    inner = _inner(frames)
    spread = inner.std((2, 3), keepdim=True).clamp(min=LEAST_SPREAD)
    return (frames - inner.mean((2, 3), keepdim=True)) / spread * spread.mean(0, keepdim=True)


def _border(frames: Tensor) -> Tensor:
    """Steps from the outermost pixels to those further in."""
    frames = _balanced(frames)
    sides = (
        frames[..., :_EDGE, :] - frames[..., _EDGE : _EDGE + 1, :],
        frames[..., -_EDGE:, :] - frames[..., -_EDGE - 1 : -_EDGE, :],
        frames[..., :_EDGE] - frames[..., _EDGE : _EDGE + 1],
        frames[..., -_EDGE:] - frames[..., -_EDGE - 1 : -_EDGE],
    )
    return torch.cat([side.flatten(1) for side in sides], dim=1)


def _texture(frames: Tensor) -> Tensor:
    """Sizes of differences of neighbours: how many are none, how large, where in a block."""
    parts = []
    for plane in (_inner(frames), _hues(_inner(frames))):
        for part in _differences(plane):
            shares = ((part.abs() <= most).float().mean((2, 3)) for most in (0, 1, 2))
            parts += [_FULL_SCALE * share for share in shares]
    balanced = _inner(_balanced(frames))
    for plane in (balanced, _hues(balanced)):
        parts += [part.abs().mean((2, 3)) for part in _differences(plane)]
        for size in (plane.diff(dim=3).abs().mean(2), plane.diff(dim=2).abs().mean(3)):
            phases = torch.arange(size.shape[2]) % _BLOCK
            parts += [size[..., phases == phase].mean(2) for phase in range(_BLOCK)]
    return torch.cat(parts, dim=1)


def _hues(frames: Tensor) -> Tensor:
    """Every channel less the grey of its image; video codecs store these at half the size."""
    grey = frames.unflatten(1, (-1, 3)).mean(2)
    return frames - grey.repeat_interleave(3, dim=1)


def _differences(plane: Tensor) -> tuple[Tensor, ...]:
    """First and second differences of neighbours, and what a blur removes."""
    across, down = plane.diff(dim=3), plane.diff(dim=2)
    fine = plane - F.avg_pool2d(plane, 3, stride=1, padding=1)
    return across, down, across.diff(dim=3), down.diff(dim=2), across.diff(dim=2), fine


_FEATURES: dict[str, Callable[[Tensor], Tensor]] = {
    "border": _border,
    "colour": lambda frames: _inner(frames).mean((2, 3)),
    "texture": _texture,
    "picture": lambda frames: _inner(_balanced(frames)).flatten(1),
}
