# SPDX-License-Identifier: Apache-2.0
"""Networks from frames to one number per sample: the residual network of Table 3, and others.

One logit for a discriminator, one value for a reward model. Register a network of your own with
`@NETWORKS.register("mine")` on a subclass of `FrameNetwork`.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pureward.errors import InputError
from pureward.pixels import MAX_CHANNELS
from pureward.registry import Registry
from pureward.rewards.view import View
from pureward.settings import check_settings
from pureward.types import checked_tensor

MIN_SIDE = 32
MAX_SIDE = 1024


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Settings of a network and of its view of frames."""

    kind: str = "residual"
    """A name in `NETWORKS`."""
    frame_channels: int = 3
    """Channels of a sample: 3 × cameras × stacked frames."""
    height: int = 64
    """Height of a frame in pixels."""
    width: int = 64
    """Width of a frame in pixels."""
    stage_channels: tuple[int, ...] = (16, 32, 32)
    """Channels of each stage (Table 3)."""
    stage_blocks: int = 2
    """Residual blocks of each stage (Table 3)."""
    dropout: float = 0.5
    """Share of the last features dropped in training (Table 3 keeps 0.5)."""
    view: View = field(default_factory=View)
    """Augmentation in training and the window for scoring (Table 3)."""

    def __post_init__(self) -> None:
        check_settings(self)
        if not 1 <= self.frame_channels <= MAX_CHANNELS:
            raise InputError(
                f"frame_channels must lie in [1, {MAX_CHANNELS}], got {self.frame_channels}; "
                "stack frames along the channels"
            )
        for name, side in (("height", self.height), ("width", self.width)):
            if not 1 <= side <= MAX_SIDE:
                raise InputError(
                    f"frame {name} must lie in [1, {MAX_SIDE}], got {side}; resize the frames"
                )
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout must lie in [0, 1), got {self.dropout}; the paper has 0.5")
        channels = self.stage_channels
        if not channels or not all(1 <= c <= MAX_CHANNELS for c in channels):
            raise InputError(
                f"stage_channels must each lie in [1, {MAX_CHANNELS}], got {channels}; "
                "Table 3 has 16, 32, 32"
            )
        if not 0 <= self.stage_blocks <= 64:
            raise InputError(f"stage_blocks must lie in [0, 64], got {self.stage_blocks}; use 2")
        NETWORKS[self.kind].check(self)


class FrameNetwork(nn.Module):
    """A network on frames with one output per sample: features, dropout, a linear layer."""

    fused = False
    """Whether `kernels/rewards` supports it."""
    head: nn.Linear
    """Linear layer from features to the output; set by the subclass."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config

    @classmethod
    def check(cls, config: NetworkConfig) -> None:
        """Raise `InputError` for settings that this network does not support."""

    def embed(self, frames: Tensor) -> Tensor:
        """Return features (batch, features); use `scaled` to convert uint8 frames to [0, 1]."""
        raise NotImplementedError

    def forward(self, frames: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return one float32 number per sample, (batch,).

        Args:
            frames: (batch, frame_channels, height, width), uint8, or floating point in [0, 1].
            generator: of the dropout mask in training mode.
        """
        self.check_frames(frames)
        return self.read_out(self.embed(frames), generator)

    def read_out(self, features: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the linear layer's output for features, float32 (batch,); dropout in training."""
        features = features.float()
        if self.training and self.config.dropout > 0:
            keep = 1 - self.config.dropout
            uniform = torch.rand(features.shape, generator=generator, device=features.device)
            # Rescaled after the linear layer: one number per sample instead of every feature.
            kept = F.linear(features * (uniform < keep), self.head.weight).squeeze(1)
            return kept / keep + self.head.bias
        return self.head(features).squeeze(1)

    def check_frames(self, frames: Tensor) -> None:
        """Raise `InputError` for frames of another shape or type than in the settings."""
        config = self.config
        expected = (config.frame_channels, config.height, config.width)
        if frames.dim() != 4 or tuple(frames.shape[1:]) != expected:
            raise InputError(
                f"frames must have shape (batch, {', '.join(map(str, expected))}), "
                f"got {tuple(frames.shape)}; stack cameras and frames along the channels"
            )
        if frames.dtype != torch.uint8 and not frames.is_floating_point():
            raise InputError(
                f"frames must be uint8 or floating point, got {frames.dtype}; cast them"
            )


#: Name → network class, built from a `NetworkConfig`.
NETWORKS: Registry[type[FrameNetwork]] = Registry("network")


class ResidualBlock(nn.Module):
    """x + conv(relu(conv(relu(x))))."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return features of the same shape."""
        return x + self.second(F.relu(self.first(F.relu(x))))


class Stage(nn.Module):
    """Convolution, max-pool that halves both sides, residual blocks."""

    def __init__(self, channels_in: int, channels: int, blocks: int) -> None:
        super().__init__()
        self.entry = nn.Conv2d(channels_in, channels, 3, padding=1)
        self.blocks = nn.ModuleList(ResidualBlock(channels) for _ in range(blocks))

    def forward(self, x: Tensor) -> Tensor:
        """Return features of half the height and width."""
        x = F.max_pool2d(self.entry(x), 2)
        for block in self.blocks:
            x = block(x)
        return x


@NETWORKS.register("residual")
class ResidualCNN(FrameNetwork):
    """Table 3's network: three stages, a ReLU, dropout and one linear layer.

    docs/concepts/paper-notes.md lists what the table leaves open.
    """

    fused = True

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        widths = (config.frame_channels, *config.stage_channels)
        self.stages = nn.ModuleList(
            Stage(before, after, config.stage_blocks) for before, after in pairwise(widths)
        )
        factor = 2 ** len(config.stage_channels)
        last_map = (config.height // factor) * (config.width // factor)
        self.head = nn.Linear(widths[-1] * last_map, 1)

    @classmethod
    def check(cls, config: NetworkConfig) -> None:
        """Raise `InputError` for sides that max-pools cannot halve, and for frames not RGB."""
        if config.frame_channels % 3:
            raise InputError(
                "frame_channels must be 3 × cameras × stacked frames, got "
                f"{config.frame_channels}; stack RGB frames along the channels"
            )
        factor = 2 ** len(config.stage_channels)
        for name, side in (("height", config.height), ("width", config.width)):
            if side < MIN_SIDE or side % factor:
                raise InputError(
                    f"frame {name} must be a multiple of {factor} from {MIN_SIDE} to {MAX_SIDE}, "
                    f"so that every max-pool is even, got {side}; resize or pad the frames"
                )

    def embed(self, frames: Tensor) -> Tensor:
        """Return the flattened features of the last stage, (batch, features)."""
        x = scaled(frames)
        for stage in self.stages:
            x = stage(x)
        return F.relu(x).flatten(1)


def check_stored(frames: Tensor, name: str = "frames") -> None:
    """Raise `InputError` unless frames are uint8 (batch, channels, height, width).

    Floating point would be ambiguous: [0, 1] for the network, 0 to 255 for a distortion.
    """
    checked_tensor(frames, f"{name} must be a tensor (batch, channels, height, width)")
    if frames.dtype != torch.uint8:
        raise InputError(
            f"{name} must be uint8 from 0 to 255, got {str(frames.dtype).removeprefix('torch.')}; "
            "pass them as stored"
        )
    if frames.dim() != 4:
        raise InputError(
            f"{name} must have shape (batch, channels, height, width), got {tuple(frames.shape)}; "
            "stack them along a first axis"
        )


def scaled(frames: Tensor) -> Tensor:
    """Convert uint8 frames to [0, 1], channels-last: this halves a convolution's time."""
    frames = frames.contiguous(memory_format=torch.channels_last)
    return frames if frames.is_floating_point() else frames.float() / 255


def seeded_network(config: NetworkConfig, seed: int, device: torch.device) -> FrameNetwork:
    """Return a network on a device whose initial weights depend on the seed only."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # the CPU's generator only
        network = NETWORKS[config.kind](config)
    return network.to(device, torch.float32, memory_format=torch.channels_last)  # type: ignore[call-overload]
