# SPDX-License-Identifier: Apache-2.0
"""Table 3's distortions, plus the brightness its text names, batched on the frames' device.

One function draws the parameters, another applies them, so that a draw can be repeated,
compared and drawn on paper. Each sample has its own draw; all cameras and stacked frames of
a sample share it, geometry and colour alike, because they show one scene at one moment
and a stack whose frames were distorted apart would show motion that never was. Pixel noise
alone is independent in every channel.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from pureward.errors import InputError

# Rec. 601 luma, the grey that contrast is measured about.
LUMA = (0.299, 0.587, 0.114)
PARAMETERS = ("flip", "top", "left", "brightness", "contrast", "saturation", "hue", "side")
OFFSETS, SIDE = slice(1, 3), slice(7, 8)
# The colour arithmetic passes over its data some forty times. Smaller chunks stay in cache, but
# every pass of every chunk costs its threads a meeting.
CPU_CHUNK_VALUES = 64 * 3 * 64 * 64


@dataclass(frozen=True, kw_only=True)
class AugmentConfig:
    """Which distortions, and how strong; the neutral value of each turns it off."""

    flip: bool = True
    """Mirror left and right in half of the samples."""
    crop: float = 0.8
    """Side of the random crop as a share of the frame, resized back; 1 is off."""
    crop_spread: float = 0.0
    """How much larger a crop's side may be, at random. Frames are scored whole: with a spread of
    1 − crop their scale is among those that were learned, with 0 it never is."""
    brightness: float = 0.125
    """Largest shift of all values, as a share of full scale; 0 is off."""
    contrast: tuple[float, float] = (0.5, 2.0)
    """Range of the factor on distances from the mean grey; (1, 1) is off."""
    saturation: tuple[float, float] = (0.5, 2.0)
    """Range of the factor on HSV saturation; (1, 1) is off."""
    hue: float = 0.05
    """Largest turn of HSV hue, as a share of the circle; 0 is off."""
    noise: float = 16.0
    """Largest pixel noise in grey levels of 255, uniform on both sides; 0 is off."""

    def __post_init__(self) -> None:
        """Refuse strengths that no frame survives."""
        if not 0.1 <= self.crop <= 1:
            raise InputError(f"crop must lie in [0.1, 1], got {self.crop}; the paper has 0.8")
        if not 0 <= self.crop_spread <= 1 - self.crop + 1e-6:
            raise InputError(
                f"crop_spread must lie in [0, 1 − crop], got {self.crop_spread} and a crop of "
                f"{self.crop}; a crop is no larger than its frame"
            )
        for name, limit in (("brightness", 1.0), ("hue", 0.5), ("noise", 255.0)):
            value = getattr(self, name)
            if not 0 <= value <= limit:
                raise InputError(f"{name} must lie in [0, {limit:g}], got {value}; 0 turns it off")
        for name in ("contrast", "saturation"):
            low, high = getattr(self, name)
            if not 0 <= low <= high < float("inf"):
                raise InputError(
                    f"{name} must be a range 0 ≤ low ≤ high, got {(low, high)}; (1, 1) turns it off"
                )

    @classmethod
    def off(cls) -> "AugmentConfig":
        """Return the configuration that leaves frames as they are."""
        one = (1.0, 1.0)
        return cls(
            flip=False, crop=1.0, brightness=0.0, contrast=one, saturation=one, hue=0.0, noise=0.0
        )

    @classmethod
    def only(cls, **strengths: object) -> "AugmentConfig":
        """Return a configuration with nothing but the named distortions."""
        return replace(cls.off(), **strengths)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class AugmentDraw:
    """One draw of all parameters for a batch."""

    parameters: Tensor
    """(batch, 8) float32, columns named by `PARAMETERS`; offsets are shares of the side."""
    noise: Tensor | None
    """(batch, channels, height, width) uint8, 0 to 255 for −noise to +noise, or None."""

    def column(self, name: str) -> Tensor:
        """Return one parameter, (batch,)."""
        return self.parameters[:, PARAMETERS.index(name)]

    def rows(self, part: slice) -> "AugmentDraw":
        """Return the draw of some samples."""
        noise = None if self.noise is None else self.noise[part]
        return AugmentDraw(parameters=self.parameters[part], noise=noise)


def draw(
    shape: torch.Size | tuple[int, ...],
    config: AugmentConfig,
    *,
    device: torch.device | str,
    generator: torch.Generator | None = None,
) -> AugmentDraw:
    """Draw every distortion's parameters for frames of a shape, uniformly in their ranges."""
    unit = torch.rand(shape[0], len(PARAMETERS), device=device, generator=generator)
    low, length = parameter_ranges(config, device)
    parameters = torch.addcmul(low, unit, length)
    parameters[:, OFFSETS].mul_(1 - parameters[:, SIDE])  # from shares of the room beside a crop
    noise = random_bytes(shape, device, generator) if config.noise > 0 else None
    return AugmentDraw(parameters=parameters, noise=noise)


@lru_cache(maxsize=64)
def parameter_ranges(config: AugmentConfig, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Return the lower ends of the parameters' ranges and their lengths, (8,) each.

    Kept, because a captured graph may not copy from the host.
    """
    ends = (
        # Sample means a flip above one half, so off is a range that never gets there.
        (0.0, 1.0 if config.flip else 0.0),
        (0.0, 1.0),
        (0.0, 1.0),
        (-config.brightness, config.brightness),
        config.contrast,
        config.saturation,
        (-config.hue, config.hue),
        (config.crop, config.crop + config.crop_spread),
    )
    table = torch.tensor(ends, dtype=torch.float32, device=device)
    return table[:, 0], table[:, 1] - table[:, 0]


def random_bytes(
    shape: torch.Size | tuple[int, ...],
    device: torch.device | str,
    generator: torch.Generator | None,
) -> Tensor:
    """Return uniform bytes, eight from each random integer: a CPU draws integers one by one."""
    count = 1
    for side in shape:
        count *= side
    words = torch.randint(
        -(2**63), 2**63 - 1, (-(-count // 8),), device=device, generator=generator
    )
    return words.view(torch.uint8)[:count].view(shape)


def apply(frames: Tensor, drawn: AugmentDraw, config: AugmentConfig) -> Tensor:
    """Return the distorted frames as float32 in [0, 1].

    The order is flip, crop, brightness, contrast, saturation, hue, noise, clipped to [0, 1]
    wherever a step can leave it.

    Args:
        frames: (batch, 3·k, height, width) uint8.
        drawn: what `draw` returned for this shape and configuration.
        config: tells which steps to leave out; strengths come from the draw.
    """
    if frames.is_cuda:
        return _distorted(frames, drawn, config)
    per_chunk = max(1, CPU_CHUNK_VALUES // frames[0].numel())
    parts = [slice(i, i + per_chunk) for i in range(0, frames.shape[0], per_chunk)]
    out = torch.empty(frames.shape, dtype=torch.float32)
    for part in parts:
        out[part] = _distorted(frames[part], drawn.rows(part), config)
    return out


def augment(
    frames: Tensor, config: AugmentConfig, generator: torch.Generator | None = None
) -> Tensor:
    """Draw and apply in one step: uint8 frames in, float32 in [0, 1] out."""
    drawn = draw(frames.shape, config, device=frames.device, generator=generator)
    return apply(frames, drawn, config)


def _distorted(frames: Tensor, drawn: AugmentDraw, config: AugmentConfig) -> Tensor:
    x = frames.to(torch.float32)
    if config.flip or config.crop < 1:
        x = moved(x, drawn)
    batch, channels, height, width = x.shape
    images = x.div_(255).view(batch, channels // 3, 3, height, width)
    if config.brightness > 0:
        images = images.add_(_per_sample(drawn, "brightness")).clamp_(0, 1)
    if config.contrast != (1.0, 1.0):
        images = with_contrast(images, _per_sample(drawn, "contrast"))
    if config.saturation != (1.0, 1.0) or config.hue > 0:
        images = recoloured(images, _per_sample(drawn, "saturation"), _per_sample(drawn, "hue"))
    x = images.view(batch, channels, height, width)
    if drawn.noise is not None:
        step = 2 * config.noise / 255 / 255
        x = x.add_(drawn.noise.to(x.dtype), alpha=step).sub_(config.noise / 255).clamp_(0, 1)
    return x


def _per_sample(drawn: AugmentDraw, name: str) -> Tensor:
    return drawn.column(name).view(-1, 1, 1, 1, 1)


def moved(x: Tensor, drawn: AugmentDraw) -> Tensor:
    """Flip, crop and resize back, bilinear, as one resampling of (batch, channels, h, w)."""
    height, width = x.shape[-2:]
    rows = positions(drawn.column("top"), drawn.column("side"), height)
    columns = positions(drawn.column("left"), drawn.column("side"), width)
    mirrored = drawn.column("flip").unsqueeze(1) > 0.5
    columns = torch.where(mirrored, columns.flip(1), columns)
    grid = x.new_empty(x.shape[0], height, width, 2)
    grid[..., 0] = columns.unsqueeze(1)
    grid[..., 1] = rows.unsqueeze(2)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=False)


def positions(offset: Tensor, side: Tensor, size: int) -> Tensor:
    """Where output pixels lie in the source, (batch, size), from −1 at one edge to 1 at the other.

    Output pixel i has its centre at the share offset + side·(i + ½)/size of the frame.
    """
    centre = (torch.arange(size, device=offset.device, dtype=torch.float32) + 0.5) / size
    return 2 * (offset.unsqueeze(1) + side.unsqueeze(1) * centre) - 1


def with_contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Scale distances from the mean grey of each image (batch, k, 3, height, width)."""
    red, green, blue = images.mean((-2, -1), keepdim=True).split(1, dim=2)
    grey = LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue
    return torch.addcmul(grey * (1 - factor), images, factor).clamp_(0, 1)


def recoloured(images: Tensor, saturation: Tensor, hue: Tensor) -> Tensor:
    """Scale saturation and turn hue in HSV, which keeps the largest channel.

    With v the largest channel and c = v − smallest, saturation c/v may at most reach 1, so
    the new chroma is min(factor·c, v). Hue in sextants puts each channel at v minus a share
    of the chroma that is piecewise linear in it: 2 − |h − 3| for red, |h − 2| − 1 for
    green, |h − 4| − 1 for blue, clipped to [0, 1].
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
    rows = torch.tensor([[3.0, 2.0, 4.0], [-1.0, 1.0, 1.0], [2.0, -1.0, -1.0]], device=device)
    centre, sign, bias = rows.view(3, 3, 1, 1)
    return centre, sign, bias
