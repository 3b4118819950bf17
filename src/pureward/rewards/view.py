# SPDX-License-Identifier: Apache-2.0
"""A network's view of frames: random in training, one fixed window for scoring.

The window has the same size in both, so frames are scored at the scale of training. The random
distortions are those of Table 3, and brightness, which the text names. `sample_distortions` samples
their parameters and `apply` uses them, so they can be applied again. Each frame has its own. Its
cameras and stacked images share them, since separate distortions would show false motion. Only
pixel noise is independent in every channel.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from pureward.errors import InputError
from pureward.settings import check_settings

PARAMETERS = ("flip", "top", "left", "brightness", "contrast", "saturation", "hue")
# The colour arithmetic passes over its data about forty times. Small chunks stay in cache, but each
# pass of each chunk incurs a thread barrier.
CPU_CHUNK_VALUES = 64 * 3 * 64 * 64


@dataclass(frozen=True, kw_only=True)
class View:
    """Settings of a view; the neutral value of each distortion turns it off."""

    crop: float = 0.8
    """Side of the window as a share of the frame's, in training and scoring. The window is resized
    to the frame; 1 is the whole frame."""
    shift: float = 0.1
    """Largest offset of the window from the centre in training, as a share of the frame's side;
    scoring uses the centre. Outside the frame, its border is repeated."""
    flip: bool = True
    """Mirror left and right in half of the samples; for tasks whose mirror image is also valid."""
    brightness: float = 0.125
    """Largest shift of all values, as a share of full scale; 0 is off."""
    contrast: tuple[float, float] = (0.5, 2.0)
    """Range of the factor on distances from the mean grey; (1, 1) is off."""
    saturation: tuple[float, float] = (0.5, 2.0)
    """Range of the factor on HSV saturation; (1, 1) is off."""
    hue: float = 0.05
    """Largest rotation of HSV hue, as a share of the circle; 0 is off."""
    noise: float = 16.0
    """Largest pixel noise in grey levels of 255, uniform on both sides; 0 is off."""

    def __post_init__(self) -> None:
        check_settings(self)
        if not 0.1 <= self.crop <= 1:
            raise InputError(f"crop must lie in [0.1, 1], got {self.crop}; the paper has 0.8")
        limits = {"shift": 0.5, "brightness": 1.0, "hue": 0.5, "noise": 255.0}
        for name, limit in limits.items():
            value = getattr(self, name)
            if not 0 <= value <= limit:
                raise InputError(f"{name} must lie in [0, {limit:g}], got {value}; 0 turns it off")
        for name in ("contrast", "saturation"):
            ends = getattr(self, name)
            if len(ends) != 2 or not 0 <= ends[0] <= ends[1]:
                raise InputError(
                    f"{name} must be a range 0 ≤ low ≤ high, got {ends}; (1, 1) turns it off"
                )

    @classmethod
    def off(cls) -> "View":
        """Return the view of whole frames without distortions."""
        return cls.only(crop=1.0)

    @classmethod
    def only(cls, **strengths: object) -> "View":
        """Return a view of whole frames with only the named distortions."""
        one = (1.0, 1.0)
        neutral = cls(
            crop=1.0, shift=0.0, flip=False, brightness=0.0, contrast=one, saturation=one, hue=0.0,
            noise=0.0,
        )  # fmt: skip
        return replace(neutral, **strengths)  # type: ignore[arg-type]

    @property
    def scored(self) -> "View":
        """The view for scoring: the window at the centre, without distortions."""
        return View.only(crop=self.crop)

    @property
    def moves(self) -> bool:
        """Whether pixels are resampled."""
        return self.flip or self.crop < 1 or self.shift > 0

    @property
    def is_random(self) -> bool:
        """Whether anything is random."""
        return self != self.scored


@dataclass(frozen=True, kw_only=True)
class Distortions:
    """All parameters for a batch."""

    parameters: Tensor
    """(batch, 7) float32, columns as in `PARAMETERS`; offsets are shares of the side."""
    noise: Tensor | None
    """(batch, channels, height, width) uint8, 0 to 255 for −noise to +noise, or None."""

    def column(self, name: str) -> Tensor:
        """Return one parameter, (batch,)."""
        return self.parameters[:, PARAMETERS.index(name)]

    def rows(self, part: slice) -> "Distortions":
        """Return those of some samples."""
        noise = None if self.noise is None else self.noise[part]
        return Distortions(parameters=self.parameters[part], noise=noise)


def sample_distortions(
    shape: torch.Size | tuple[int, ...],
    view: View,
    *,
    device: torch.device | str,
    generator: torch.Generator | None = None,
) -> Distortions:
    """Sample the parameters of all distortions uniformly, for frames of a shape."""
    low, length = parameter_ranges(view, device)
    if not view.is_random:
        return Distortions(parameters=low.expand(shape[0], -1), noise=None)
    size = (shape[0], len(PARAMETERS))
    unit = torch.rand(size, dtype=torch.float32, device=device, generator=generator)
    parameters = torch.addcmul(low, unit, length)
    noise = random_bytes(shape, device, generator) if view.noise > 0 else None
    return Distortions(parameters=parameters, noise=noise)


@lru_cache(maxsize=64)
def parameter_ranges(view: View, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Return the lower ends and the lengths of the parameters' ranges, (7,) each.

    Cached, because a captured graph may not copy from the host.
    """
    centre = (1.0 - view.crop) / 2  # offset of the centred window
    ends = (
        (0.0, 1.0 if view.flip else 0.0),  # above ½ is a flip
        (centre - view.shift, centre + view.shift),
        (centre - view.shift, centre + view.shift),
        (-view.brightness, view.brightness),
        view.contrast,
        view.saturation,
        (-view.hue, view.hue),
    )
    table = torch.tensor(ends, dtype=torch.float32, device=device)
    return table[:, 0].contiguous(), table[:, 1] - table[:, 0]


def random_bytes(
    shape: torch.Size | tuple[int, ...],
    device: torch.device | str,
    generator: torch.Generator | None,
) -> Tensor:
    """Return uniform bytes, eight per random integer: a CPU samples integers one by one."""
    count = prod(shape)
    size = (-(-count // 8),)
    words = torch.randint(-(2**63), 2**63 - 1, size, device=device, generator=generator)
    return words.view(torch.uint8)[:count].view(shape)


def apply(frames: Tensor, distortions: Distortions, view: View) -> Tensor:
    """Apply flip, crop, brightness, contrast, saturation, hue and noise, in this order.

    Args:
        frames: (batch, 3·k, height, width) uint8.
        distortions: result of `sample_distortions` for this shape and view.
        view: which steps to apply; their strengths are in the distortions.

    Returns:
        float32 in [0, 1], of the same shape; steps that can exceed this range clip to it.
    """
    if frames.is_cuda:
        return _distorted(frames, distortions, view)
    per_chunk = max(1, CPU_CHUNK_VALUES // prod(frames.shape[1:]))
    out = torch.empty(frames.shape, dtype=torch.float32)
    for start in range(0, frames.shape[0], per_chunk):
        part = slice(start, start + per_chunk)
        out[part] = _distorted(frames[part], distortions.rows(part), view)
    return out


def viewed(frames: Tensor, view: View, generator: torch.Generator | None = None) -> Tensor:
    """Sample and apply: from uint8 frames to float32 in [0, 1]."""
    distortions = sample_distortions(frames.shape, view, device=frames.device, generator=generator)
    return apply(frames, distortions, view)


def _distorted(frames: Tensor, distortions: Distortions, view: View) -> Tensor:
    x = frames.to(torch.float32)
    if view.moves:
        x = moved(x, distortions, view.crop)
    batch, channels, height, width = x.shape
    images = x.div_(255).view(batch, channels // 3, 3, height, width)
    if view.brightness > 0:
        images = images.add_(_per_sample(distortions, "brightness")).clamp_(0, 1)
    if view.contrast != (1.0, 1.0):
        images = with_contrast(images, _per_sample(distortions, "contrast"))
    if view.saturation != (1.0, 1.0) or view.hue > 0:
        images = recoloured(
            images, _per_sample(distortions, "saturation"), _per_sample(distortions, "hue")
        )
    x = images.view(batch, channels, height, width)
    if distortions.noise is not None:
        step = 2 * view.noise / 255 / 255
        x = x.add_(distortions.noise.to(x.dtype), alpha=step).sub_(view.noise / 255).clamp_(0, 1)
    return x


def _per_sample(distortions: Distortions, name: str) -> Tensor:
    return distortions.column(name).view(-1, 1, 1, 1, 1)


def moved(x: Tensor, distortions: Distortions, crop: float) -> Tensor:
    """Flip, crop and resize in one bilinear resampling of (batch, channels, h, w)."""
    height, width = x.shape[-2:]
    rows = positions(distortions.column("top"), crop, height)
    columns = positions(distortions.column("left"), crop, width)
    mirrored = distortions.column("flip").unsqueeze(1) > 0.5
    columns = torch.where(mirrored, columns.flip(1), columns)
    grid = x.new_empty(x.shape[0], height, width, 2)
    grid[..., 0] = columns.unsqueeze(1)
    grid[..., 1] = rows.unsqueeze(2)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=False)


def positions(offset: Tensor, side: float, size: int) -> Tensor:
    """Return the output pixels' positions in the source, (batch, size), −1 to 1 edge to edge.

    Output pixel i has its centre at the share offset + side·(i + ½)/size of the frame.
    """
    centre = (torch.arange(size, device=offset.device, dtype=torch.float32) + 0.5) / size
    return 2 * (offset.unsqueeze(1) + side * centre) - 1


def with_contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Scale differences from the mean grey of each image (batch, k, 3, height, width)."""
    red, green, blue = images.mean((-2, -1), keepdim=True).split(1, dim=2)
    grey = 0.299 * red + 0.587 * green + 0.114 * blue  # Rec. 601 luma
    return torch.addcmul(grey * (1 - factor), images, factor).clamp_(0, 1)


def recoloured(images: Tensor, saturation: Tensor, hue: Tensor) -> Tensor:
    """Scale saturation and rotate hue in HSV; the largest channel does not change.

    With v the largest channel and chroma c = v − smallest, saturation is c/v ≤ 1, so the new
    chroma is min(factor·c, v). With hue h in sextants, each channel is v minus a share of the
    chroma: 2 − |h − 3| for red, |h − 2| − 1 for green, |h − 4| − 1 for blue, clipped to [0, 1].
    """
    red, green, blue = images.unbind(2)
    value = torch.maximum(torch.maximum(red, green), blue)
    chroma = value - torch.minimum(torch.minimum(red, green), blue)
    green_leads = torch.add(blue - red, chroma, alpha=2)
    blue_leads = torch.add(red - green, chroma, alpha=4)
    hue_times_chroma = torch.where(green >= blue, green_leads, blue_leads)
    hue_times_chroma = torch.where(value == red, green - blue, hue_times_chroma)
    sextant = hue_times_chroma.div_(chroma.clamp(min=1e-12)).add_(6 * hue.squeeze(2))
    sextant = sextant.sub_((sextant / 6).floor_(), alpha=6)
    chroma = torch.minimum(chroma.mul_(saturation.squeeze(2)), value)
    centre, sign, bias = _hue_constants(images.device)
    missing = torch.addcmul(bias, (sextant.unsqueeze(2) - centre).abs_(), sign).clamp_(0, 1)
    return torch.addcmul(value.unsqueeze(2), missing, chroma.unsqueeze(2), value=-1)


@lru_cache(maxsize=16)
def _hue_constants(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Centre, sign and bias of the piecewise linear shares, for red, green and blue."""
    table = [[3.0, 2.0, 4.0], [-1.0, 1.0, 1.0], [2.0, -1.0, -1.0]]
    rows = torch.tensor(table, dtype=torch.float32, device=device)
    centre, sign, bias = rows.view(3, 3, 1, 1)
    return centre, sign, bias
