# SPDX-License-Identifier: Apache-2.0
"""A task: a model and functions for first states, observations, rewards and success."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import mujoco
import torch
from torch import Tensor

from pureward.envs.sim.engine import Limits, State
from pureward.errors import InputError
from pureward.types import Script

#: Draws the state fields that episodes start from: (worlds, generator) → {field: (worlds, …)}.
Reset = Callable[[int, torch.Generator], Mapping[str, Tensor]]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A row of `TASKS`. Its functions work on the tensors of any engine."""

    name: str
    summary: str
    """One line: what has to be done."""
    build: Callable[[], mujoco.MjModel]
    """Compiles the model that both engines simulate."""
    substeps: int
    """Physics steps in one control step."""
    horizon: int
    """Control steps in one episode; its end is a truncation."""
    cameras: tuple[str, ...]
    """Model cameras whose images are stacked as channels, in this order."""
    limits: Limits
    reset: Callable[[mujoco.MjModel, torch.device], Reset]
    """Returns the function that samples first states of the model on a device."""
    observe: Callable[[State], Tensor]
    """Low-dimensional state (worlds, size)."""
    reward: Callable[[State], Tensor]
    """The task's own reward in [0, 1] (worlds,)."""
    success: Callable[[State], Tensor]
    """Whether each world is in a state that solves the task (worlds,)."""
    hold: int = 1
    """Consecutive control steps for which `success` must be true for the task to be solved."""
    script: Callable[[State], Script] | None = None
    """Returns a hand-written policy for the worlds of a live state."""
    observed: Mapping[str, int] = field(default_factory=dict)
    """Names and sizes of what `observe` returns, in order; may be empty."""
    variants: Mapping[str, Callable[[], mujoco.MjModel]] = field(default_factory=dict)
    """Models with other distractors, by the name of their shape."""

    def model(self, distractors: str = "") -> mujoco.MjModel:
        """Compile the variant with those distractors; "" for the default model."""
        return self.variant(distractors)()

    def variant(self, distractors: str) -> Callable[[], mujoco.MjModel]:
        """Return what compiles the model with those distractors; "" for the default."""
        if not distractors:
            return self.build
        if not self.variants:
            raise InputError(
                f"task {self.name!r} has no distractors, got {distractors!r}; "
                "leave distractors out, or choose lift or stack"
            )
        if distractors not in [*self.variants]:  # in a dict, a list would raise TypeError
            raise InputError(
                f"unknown distractors {distractors!r}; choose from {sorted(self.variants)}"
            )
        return self.variants[distractors]

    def control_step(self, model: mujoco.MjModel) -> float:
        """Return the seconds of one control step."""
        return self.substeps * float(model.opt.timestep)
