# SPDX-License-Identifier: Apache-2.0
"""How a network looks at frames: at random in training, at one fixed window when it scores.

The window has the same side in both, so frames are scored at the scale they were learned at. The
random part is Table 3's distortions, plus the brightness its text names, batched on the frames'
device. One function draws the parameters and another applies them, so a draw can be repeated and
compared. Each sample has its own draw. All cameras and stacked frames of a sample share it,
because they show one scene at one moment: frames distorted separately would show false motion.
Only pixel noise is independent in every channel.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from pureward.errors import InputError

# Rec. 601 luma, the grey that contrast is measured about.
LUMA = (0.299, 0.587, 0.114)
PARAMETERS = ("flip", "top", "left", "brightness", "contrast", "saturation", "hue")
# The colour arithmetic passes over its data some forty times. Smaller chunks stay in cache, but
# every pass of every chunk incurs a thread barrier.
CPU_CHUNK_VALUES = 64 * 3 * 64 * 64


@dataclass(frozen=True, kw_only=True)
class View:
    """What a network sees of a frame; the neutral value of each distortion turns it off."""

    crop: float = 0.8
    """Side of the window as a share of the frame's, in training and scoring alike. The window is
    resized to the frame; 1 is the whole frame."""
    shift: float = 0.1
    """How far the window moves from the frame's centre in training, as a share of the frame's
    side; scoring looks at the centre. Outside the frame, its border is repeated."""
    flip: bool = True
    """Mirror left and right in half of the samples: right where a mirror image shows the same
    behaviour."""
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
        """Refuse values out of range."""
        if not 0.1 <= self.crop <= 1:
            raise InputError(f"crop must lie in [0.1, 1], got {self.crop}; the paper has 0.8")
        limits = {"shift": 0.5, "brightness": 1.0, "hue": 0.5, "noise": 255.0}
        for name, limit in limits.items():
            value = getattr(self, name)
            if not 0 <= value <= limit:
                raise InputError(f"{name} must lie in [0, {limit:g}], got {value}; 0 turns it off")
        for name in ("contrast", "saturation"):
            ends = tuple(getattr(self, name))
            if len(ends) != 2 or not 0 <= ends[0] <= ends[1] < float("inf"):
                raise InputError(
                    f"{name} must be a range 0 ≤ low ≤ high, got {ends}; (1, 1) turns it off"
                )
            # A list would make the view unhashable, and unequal to the same one saved.
            object.__setattr__(self, name, ends)

    @classmethod
    def off(cls) -> "View":
        """Return the view of whole frames as they are stored."""
        return cls.only(crop=1.0)

    @classmethod
    def only(cls, **strengths: object) -> "View":
        """Return a view of whole frames with nothing but the named distortions."""
        one = (1.0, 1.0)
        neutral = cls(
            crop=1.0, shift=0.0, flip=False, brightness=0.0, contrast=one, saturation=one, hue=0.0,
            noise=0.0,
        )  # fmt: skip
        return replace(neutral, **strengths)  # type: ignore[arg-type]

    @property
    def scored(self) -> "View":
        """The view that scoring uses: the same window at the centre, nothing at random."""
        return View.only(crop=self.crop)

    @property
    def moves(self) -> bool:
        """Whether pixels are resampled."""
        return self.flip or self.crop < 1 or self.shift > 0

    @property
    def is_random(self) -> bool:
        """Whether anything is drawn."""
        return self != self.scored


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One draw of all parameters for a batch."""

    parameters: Tensor
    """(batch, 7) float32, columns named by `PARAMETERS`; offsets are shares of the side."""
    noise: Tensor | None
    """(batch, channels, height, width) uint8, 0 to 255 for −noise to +noise, or None."""

    def column(self, name: str) -> Tensor:
        """Return one parameter, (batch,)."""
        return self.parameters[:, PARAMETERS.index(name)]

    def rows(self, part: slice) -> "Draw":
        """Return the draw of some samples."""
        noise = None if self.noise is None else self.noise[part]
        return Draw(parameters=self.parameters[part], noise=noise)


def draw(
    shape: torch.Size | tuple[int, ...],
    view: View,
    *,
    device: torch.device | str,
    generator: torch.Generator | None = None,
) -> Draw:
    """Draw every distortion's parameters for frames of a shape, uniformly in their ranges."""
    low, length = parameter_ranges(view, device)
    if not view.is_random:
        return Draw(parameters=low.expand(shape[0], -1), noise=None)
    unit = torch.rand(shape[0], len(PARAMETERS), device=device, generator=generator)
    parameters = torch.addcmul(low, unit, length)
    noise = random_bytes(shape, device, generator) if view.noise > 0 else None
    return Draw(parameters=parameters, noise=noise)


@lru_cache(maxsize=64)
def parameter_ranges(view: View, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Return the lower ends of the parameters' ranges and their lengths, (7,) each.

    Kept, because a captured graph may not copy from the host.
    """
    centre = (1.0 - view.crop) / 2  # offset of a window in the middle
    ends = (
        # Sample means a flip above one half, so off is a range that never gets there.
        (0.0, 1.0 if view.flip else 0.0),
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
    """Return uniform bytes, eight from each random integer: a CPU draws integers one by one."""
    count = 1
    for side in shape:
        count *= side
    words = torch.randint(
        -(2**63), 2**63 - 1, (-(-count // 8),), device=device, generator=generator
    )
    return words.view(torch.uint8)[:count].view(shape)


def apply(frames: Tensor, drawn: Draw, view: View) -> Tensor:
    """Return frames as a view shows them, float32 in [0, 1].

    The order is flip, crop, brightness, contrast, saturation, hue, noise, clipped to [0, 1]
    wherever a step can leave it.

    Args:
        frames: (batch, 3·k, height, width) uint8.
        drawn: what `draw` returned for this shape and view.
        view: tells which steps to leave out; strengths come from the draw.
    """
    if frames.is_cuda:
        return _distorted(frames, drawn, view)
    per_chunk = max(1, CPU_CHUNK_VALUES // frames[0].numel())
    parts = [slice(i, i + per_chunk) for i in range(0, frames.shape[0], per_chunk)]
    out = torch.empty(frames.shape, dtype=torch.float32)
    for part in parts:
        out[part] = _distorted(frames[part], drawn.rows(part), view)
    return out


def viewed(frames: Tensor, view: View, generator: torch.Generator | None = None) -> Tensor:
    """Draw and apply in one step: uint8 frames in, float32 in [0, 1] out."""
    drawn = draw(frames.shape, view, device=frames.device, generator=generator)
    return apply(frames, drawn, view)


def _distorted(frames: Tensor, drawn: Draw, view: View) -> Tensor:
    x = frames.to(torch.float32)
    if view.moves:
        x = moved(x, drawn, view.crop)
    batch, channels, height, width = x.shape
    images = x.div_(255).view(batch, channels // 3, 3, height, width)
    if view.brightness > 0:
        images = images.add_(_per_sample(drawn, "brightness")).clamp_(0, 1)
    if view.contrast != (1.0, 1.0):
        images = with_contrast(images, _per_sample(drawn, "contrast"))
    if view.saturation != (1.0, 1.0) or view.hue > 0:
        images = recoloured(images, _per_sample(drawn, "saturation"), _per_sample(drawn, "hue"))
    x = images.view(batch, channels, height, width)
    if drawn.noise is not None:
        step = 2 * view.noise / 255 / 255
        x = x.add_(drawn.noise.to(x.dtype), alpha=step).sub_(view.noise / 255).clamp_(0, 1)
    return x


def _per_sample(drawn: Draw, name: str) -> Tensor:
    return drawn.column(name).view(-1, 1, 1, 1, 1)


def moved(x: Tensor, drawn: Draw, crop: float) -> Tensor:
    """Flip, crop and resize back, bilinear, as one resampling of (batch, channels, h, w)."""
    height, width = x.shape[-2:]
    rows = positions(drawn.column("top"), crop, height)
    columns = positions(drawn.column("left"), crop, width)
    mirrored = drawn.column("flip").unsqueeze(1) > 0.5
    columns = torch.where(mirrored, columns.flip(1), columns)
    grid = x.new_empty(x.shape[0], height, width, 2)
    grid[..., 0] = columns.unsqueeze(1)
    grid[..., 1] = rows.unsqueeze(2)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=False)


def positions(offset: Tensor, side: float, size: int) -> Tensor:
    """Where output pixels lie in the source, (batch, size), from −1 at one edge to 1 at the other.

    Output pixel i has its centre at the share offset + side·(i + ½)/size of the frame.
    """
    centre = (torch.arange(size, device=offset.device, dtype=torch.float32) + 0.5) / size
    return 2 * (offset.unsqueeze(1) + side * centre) - 1


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
