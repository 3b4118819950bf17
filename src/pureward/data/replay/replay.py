# SPDX-License-Identifier: Apache-2.0
"""Replay: a `[time, world]` ring on the learner's device, read by index arithmetic.

Row t of a world holds state, frame and action at time t, and the task's reward of the arrival
state. The arrival state itself is in row t+1, unless the episode ended or row t is the newest: then
it is on the shelf, which has one slot per episode. Shelf and rows share one table, so that the
states of a window and its stacks of frames are indices into it. Learned rewards are not stored but
computed at sampling time, from arrival frames (Algorithm 1).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pureward.data.replay.layout import HOST, Layout, claimable_bytes, readable
from pureward.data.replay.sampler import Sampler
from pureward.data.replay.tables import allocate, restore
from pureward.data.replay.windows import Windows
from pureward.errors import InputError
from pureward.settings import check_settings
from pureward.types import Observation, Step

Storage = Literal["device", "host"]


@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    """Size of a replay and shape of its windows."""

    capacity: int = 1_000_000
    """Steps stored, of all worlds together."""
    n_step: int = 5
    """Steps in a return (Table 4)."""
    discount: float = 0.99
    """γ (Table 4)."""
    frame_stack: int = 1
    """Consecutive frames that a reward sees, as channels, oldest first."""
    storage: Storage = "device"
    """Where frames are stored: "device", or "host" (pinned; slower, with host syncs)."""

    def __post_init__(self) -> None:
        """Refuse settings of a wrong type or out of range."""
        check_settings(self)
        for name in ("capacity", "n_step", "frame_stack"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}; raise it")
        if not 0 <= self.discount <= 1:
            raise InputError(f"discount must lie in [0, 1], got {self.discount}; try 0.99")
        if self.storage not in ("device", "host"):
            raise InputError(f"unknown storage {self.storage!r}; choose from 'device', 'host'")


class Replay:
    """The last steps of every world, sampled as n-step windows and arrival frames.

    No method waits for the device, unless frames are in host memory.

    Every stored step is sampled with the same probability, except two kinds that are never sampled:
    the oldest `frame_stack − 2` rows, since frames of their stacks are overwritten, and steps of
    episodes that are no longer on the shelf, if episodes are much shorter than the horizon.
    """

    def __init__(
        self,
        config: ReplayConfig,
        *,
        worlds: int,
        horizon: int,
        state_size: int,
        action_size: int,
        frame_shape: tuple[int, int, int] | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """Allocate the memory; if it does not fit, the error names a capacity that does.

        Args:
            config: capacity and shape of the windows.
            worlds: how many worlds step together.
            horizon: the time limit of an episode; see the class for shorter ones.
            state_size: numbers in a state.
            action_size: numbers in an action.
            frame_shape: channels, height, width of a frame; None stores no frames.
            device: the learner's.
        """
        self.config = config
        self.device = torch.device(device)
        self.layout = Layout(
            rows=config.capacity // worlds,
            worlds=worlds,
            horizon=horizon,
            state_size=state_size,
            action_size=action_size,
            frame_shape=frame_shape,
        )
        on_host = config.storage == "host" and self.device.type != "cpu"
        self._check_size(torch.device("cpu") if on_host else self.device)
        self._tables = allocate(self.layout, self.device, frames_on_host=on_host)
        self._sampler = Sampler(
            self._tables, self.layout, n_step=config.n_step, discount=config.discount
        )
        self._place = self._sampler.place
        self._shelf_size = self._sampler.shelf_size
        self._host_rows = 0
        self._world = torch.arange(worlds, device=self.device)
        self._back = torch.arange(config.frame_stack, device=self.device).flip(0)

    def __len__(self) -> int:
        """Steps stored now, of all worlds together; counted on the host."""
        return min(self._host_rows, self.layout.rows) * self.layout.worlds

    @property
    def capacity(self) -> int:
        """The most steps that it stores, of all worlds together."""
        return self.layout.steps

    @property
    def steps_added(self) -> int:
        """Steps ever added, of all worlds together."""
        return self._host_rows * self.layout.worlds

    def describe(self) -> str:
        """Return a line for a log: steps, device, bytes."""
        layout = self.layout
        frames = "no frames"
        if self._tables.frames is not None:
            where = "" if self._tables.frames.device == self.device else f" in {HOST}"
            frames = f"{readable(self._tables.frames.nbytes)} of them frames{where}"
        shape = f"{layout.rows:,} rows × {layout.worlds:,} worlds"
        size = readable(layout.bytes)
        return f"replay of {layout.steps:,} steps ({shape}) on {self.device}: {size}, {frames}"

    @torch.no_grad()
    def add(self, obs: Observation, action: Tensor, step: Step) -> None:
        """Store one step of every world.

        Args:
            obs: before the step: `step.obs` of the previous call.
            action: (worlds, action size).
            step: the result of the action.
        """
        self._check_shapes(obs, action)
        tables = self._tables
        place = self._place(tables.rows, self._world)
        shelf = self._shelf()
        tables.write_observation(self._shelf_size + place, obs)
        # The newest arrival is on the shelf until the next row holds it, or for good.
        tables.write_observation(shelf, step.final_obs)
        tables.action.index_copy_(0, place, action.to(self.device))
        tables.reward.index_copy_(0, place, step.reward.to(self.device))
        tables.ending.index_copy_(0, place, shelf)
        terminated = step.terminated.to(self.device)
        tables.terminated.index_copy_(0, shelf, terminated)
        tables.last.index_copy_(0, shelf, tables.rows.expand_as(shelf))
        tables.rows.add_(1)
        self._begin_episodes(terminated | step.truncated.to(self.device))
        self._host_rows += 1

    @torch.no_grad()
    def sample(self, batch: int, generator: torch.Generator) -> Windows:
        """Sample windows that begin at any stored step, each with the same probability.

        A window ends with its episode or at the newest step; time limits bootstrap from the
        arrival, terminal states do not.
        """
        return self._sampler.windows(self._fractions(batch, generator))

    @torch.no_grad()
    def arrival_frames(self, steps: Tensor) -> Tensor:
        """Return the frames of the arrival states of steps, such as `Windows.steps`.

        Returns:
            uint8 (*steps.shape, frame_stack · channels, height, width), oldest channels
            first; at an episode's start its first frame is repeated.
        """
        tables = self._tables
        world = (steps % self.layout.worlds)[..., None]
        ending = tables.ending[steps][..., None]
        newest = tables.rows - 1
        row = newest - (newest - steps // self.layout.worlds) % self.layout.rows
        seen = torch.maximum((row + 1)[..., None] - self._back, tables.begin[ending])
        place = self._shelf_size + self._place(seen, world)
        frames = tables.read_frames(torch.where(seen > tables.last[ending], ending, place))
        channels, *size = self.layout.frame_shape or (0, 0, 0)
        return frames.view(*steps.shape, self.config.frame_stack * channels, *size)

    def episodes(self, steps: Tensor) -> Tensor:
        """Return the episode of each step, as a number that is unique among stored episodes."""
        return self._tables.ending[steps]

    def sample_steps(self, batch: int, generator: torch.Generator) -> Tensor:
        """Sample indices of stored steps, int64 (batch,), each with the same probability."""
        return self._place(*self._sampler.chosen(self._fractions(batch, generator)))

    def newest_steps(self) -> Tensor:
        """Return the indices of every world's last step, int64 (worlds,)."""
        return self._place(self._tables.rows - 1, self._world)

    def state_dict(self) -> dict[str, Tensor]:
        """Return views of all stored data; write them before the next `add`."""
        return self._tables.in_use(len(self))

    @torch.no_grad()
    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Restore a `state_dict` in place, so that captured graphs see it."""
        self._host_rows = restore(self._tables, self.layout, saved)
        self._count_readable()
        self._check_episodes()

    @torch.no_grad()
    def end_episodes(self) -> None:
        """Cut off the episodes that are under way: the next steps begin new ones."""
        self._begin_episodes(self._tables.begin[self._shelf()] < self._tables.rows)

    def _shelf(self) -> Tensor:
        """Shelf slot of each world's current episode."""
        return self._tables.episode % self.layout.endings * self.layout.worlds + self._world

    def _fractions(self, batch: int, generator: torch.Generator) -> Tensor:
        """Random numbers in [0, 1), float64 (batch,), that select steps.

        float32 has 24 bits, too few for the steps of a large ring. The largest float64 below 1,
        1 − 2⁻⁵³, times any total still rounds to less than the total.
        """
        if not self._host_rows:
            raise InputError("an empty replay cannot be sampled; add steps first")
        return torch.rand(batch, dtype=torch.float64, device=self.device, generator=generator)

    def _begin_episodes(self, ended: Tensor) -> None:
        """Give every world that ended its next shelf slot; without branches, for capture."""
        tables = self._tables
        tables.episode.add_(ended)
        shelf = self._shelf()
        begin = torch.where(ended, tables.rows, tables.begin[shelf])
        tables.begin.index_copy_(0, shelf, begin)
        # Both keep their values if no episode ended.
        tables.last.index_copy_(0, shelf, (tables.rows - 1).expand_as(shelf))
        tables.terminated.index_copy_(0, shelf, torch.zeros_like(ended))
        self._count_readable()

    def _count_readable(self) -> None:
        """Update the cumulative number of steps that can be sampled, for `Sampler`."""
        tables, layout = self._tables, self.layout
        overwritten = (tables.rows - layout.rows).clamp(min=0)
        # The oldest of three stacked frames is one row before the step.
        short = (overwritten > 0) * max(0, self.config.frame_stack - 2)
        oldest = (tables.episode - layout.endings + 1).clamp(min=0) % layout.endings
        kept_from = tables.begin[oldest * layout.worlds + self._world]
        first = torch.maximum(overwritten + short, kept_from)
        torch.cumsum(tables.rows - first, dim=0, out=self._sampler.readable)

    def _check_episodes(self) -> None:
        """Refuse restored tables in which a step is not part of its episode."""
        tables, worlds = self._tables, self.layout.worlds
        steps = torch.arange(len(self), device=self.device)
        newest, world = tables.rows - 1, steps % worlds
        row = newest - (newest - steps // worlds) % self.layout.rows
        readable = self._sampler.readable.diff(prepend=tables.rows.new_zeros(1))
        ending = tables.ending[: len(self)]
        inside = (tables.begin[ending] <= row) & (row <= tables.last[ending])
        sampled = row >= (tables.rows - readable)[world]
        wrong = (sampled & ~(inside & (ending % worlds == world))).any()
        if len(self) and bool(wrong | (readable < 1).any()):
            raise InputError(
                "a saved replay's 'ending', 'begin' and 'last' contradict each other; "
                "resume from an older checkpoint"
            )

    def _check_size(self, memory: torch.device) -> None:
        needed = self.layout.worlds * max(1, self.config.frame_stack - 1)
        if self.config.capacity < needed:
            raise InputError(
                f"capacity must hold a stack of frames of every world, {needed} steps, "
                f"got {self.config.capacity}; raise it or use fewer worlds"
            )
        free = claimable_bytes(memory)
        if free is not None:
            self.layout.check_fits(free, HOST if memory.type == "cpu" else str(memory))

    def _check_shapes(self, obs: Observation, action: Tensor) -> None:
        layout = self.layout
        expected = (layout.worlds, layout.state_size), (layout.worlds, layout.action_size)
        found = tuple(obs.state.shape), tuple(action.shape)
        if found != expected:
            raise InputError(
                f"states and actions must have shapes {expected}, got {found}; "
                "make the replay with the environment's sizes"
            )
        seen = None if obs.frames is None else tuple(obs.frames.shape[1:])
        if layout.frame_shape is not None and seen != tuple(layout.frame_shape):
            raise InputError(
                f"frames must have shape {layout.frame_shape}, got {seen}; "
                "make the environment with cameras=True"
            )
