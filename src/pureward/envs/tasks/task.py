# SPDX-License-Identifier: Apache-2.0
"""A task: a model, and what is drawn, seen, rewarded and called success in it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import mujoco
import torch
from torch import Tensor

from pureward.envs.sim.engine import Limits, State
from pureward.errors import InputError
from pureward.types import Script

#: Draws the state fields that a new episode of every world starts from.
Reset = Callable[[int, torch.Generator], Mapping[str, Tensor]]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A row of the task table. The functions are tensor arithmetic, written once for any engine."""

    name: str
    summary: str
    """One line for people: what has to be done."""
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
    """Makes the function that draws first states of the model on a device."""
    observe: Callable[[State], Tensor]
    """Low-dimensional state (worlds, size)."""
    reward: Callable[[State], Tensor]
    """The task's own reward in [0, 1] (worlds,)."""
    success: Callable[[State], Tensor]
    """Whether each world is in a state that solves the task (worlds,)."""
    hold: int = 1
    """Consecutive control steps for which `success` must be true for the task to be solved."""
    script: Callable[[State], Script] | None = None
    """Makes a hand-written policy that acts in the worlds of a live state."""
    observed: Mapping[str, int] = field(default_factory=dict)
    """What `observe` gives, in order: name and how many numbers. Empty where it is not told."""
    variants: Mapping[str, Callable[[], mujoco.MjModel]] = field(default_factory=dict)
    """Models with other things in sight that are not the task's, by the name of the shape."""

    def model(self, distractors: str | None = None) -> mujoco.MjModel:
        """Compile the task's own model, or the variant with those distractors."""
        return self.variant(distractors)()

    def variant(self, distractors: str | None) -> Callable[[], mujoco.MjModel]:
        """What compiles the model with those distractors, or a sentence that it has none."""
        if distractors is None:
            return self.build
        if not self.variants:
            raise InputError(
                f"task {self.name!r} has no distractors, got {distractors!r}; "
                "leave distractors out, or choose lift or stack"
            )
        if distractors not in self.variants:
            raise InputError(
                f"unknown distractors {distractors!r}; choose from {sorted(self.variants)}"
            )
        return self.variants[distractors]

    def control_step(self, model: mujoco.MjModel) -> float:
        """Seconds of one control step."""
        return self.substeps * float(model.opt.timestep)
