# SPDX-License-Identifier: Apache-2.0
"""An actor: steps worlds of its own with the policy that the learner sent last.

Weights and steps travel as safetensors bytes, which cannot execute code.
"""

import json
import socket
import time
from dataclasses import dataclass
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

import pureward
from pureward.agents import AGENTS
from pureward.agents.exploration import Exploration
from pureward.envs import BatchEnv
from pureward.errors import InputError, SimulationError
from pureward.runs.config import RunConfig
from pureward.runs.config_file import from_json
from pureward.types import Observation

#: A reply has at most so many steps of each world, and is sent after so many seconds.
REPLY_STEPS, REPLY_SECONDS = 64, 0.1
_VERSION = "version"
_OUTCOME = ("reward", "terminated", "truncated", "success")  # fields of `Step`


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What an actor is made from."""

    version: str
    """Of the learner's pureward."""
    config: str
    """The settings of the run, as JSON."""
    worlds: int
    seed: int


def pack_policy(tensors: dict[str, Tensor], version: int) -> bytes:
    """Return the weights of a policy as bytes.

    Args:
        tensors: of `Agent.policy_tensors`.
        version: the number of updates that made them.
    """
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return save(kept | {_VERSION: torch.tensor(version)})


def error_reply(text: str, *, fatal: bool = False) -> bytes:
    """Return a reply that says why there are no steps, and whether to try again is useless."""
    words = torch.tensor(list(text.encode()), dtype=torch.uint8)
    return save({"error": words, "fatal": torch.tensor(fatal)})


class Actor:
    """Steps worlds; an error in them is part of the reply."""

    def __init__(self, spec: Spec) -> None:
        """Store the settings; the first call of `advance` makes the worlds."""
        self._spec = spec
        self._worlds: _Worlds | None = None
        self._weights = b""

    def advance(self, weights: bytes, at_random: bool) -> bytes:
        """Step all worlds for a short time.

        Args:
            weights: of `pack_policy`.
            at_random: act at random instead of by the policy.

        Returns:
            The steps, tensors (steps, worlds, …), with the observations that ended an episode and
            the version of the weights; or "error", whether it is "fatal", and its text.
        """
        try:
            if self._worlds is None:
                self._worlds = _Worlds(self._spec)
            if weights is not self._weights:
                self._worlds.load(weights)
                self._weights = weights
            return save(self._worlds.steps(at_random))
        except Exception as error:  # an environment of the user may raise anything
            known = isinstance(error, InputError | SimulationError)
            text = str(error) if known else f"{type(error).__name__}: {error}"
            begins = self._worlds is None  # later another actor can go on in its place
            return error_reply(text, fatal=begins and isinstance(error, InputError))


class _Worlds:
    def __init__(self, spec: Spec) -> None:
        if spec.version != (own := pureward.__version__):
            raise InputError(
                f"{socket.gethostname()} has pureward {own}, and the learner {spec.version}; "
                "install the same version"
            )
        torch.set_num_threads(1)
        self.config: RunConfig = from_json(json.loads(spec.config))
        cameras = self.config.needs_frames
        env: BatchEnv = self.config.make_env(spec.worlds, "cpu", seed=spec.seed, cameras=cameras)
        self.env = env
        sizes = env.state_size, env.action_size
        self.policy: nn.Module = AGENTS[self.config.algorithm].policy(self.config.agent, *sizes)
        self.generator = torch.Generator().manual_seed(spec.seed)
        self.exploration = Exploration(
            self.config.exploration,
            worlds=spec.worlds,
            action_size=env.action_size,
            generator=self.generator,
        )
        self.version = torch.tensor(0)
        self.obs = env.reset()

    def load(self, weights: bytes) -> None:
        tensors = load(weights)
        self.version = tensors.pop(_VERSION)
        self.policy.load_state_dict(tensors)

    @torch.no_grad()
    def steps(self, at_random: bool) -> dict[str, Tensor]:
        """Step until there are enough for a reply."""
        rows: list[dict[str, Tensor]] = []
        finals: list[dict[str, Tensor]] = []
        until = time.monotonic() + REPLY_SECONDS
        while len(rows) < REPLY_STEPS and (not rows or time.monotonic() < until):
            # As `Learner.act`; an agent whose noise is not added to its actions differs here.
            noise = self.exploration.sample(self.generator)
            if at_random:
                action = self.exploration.random_actions()
            else:
                action = (self.policy(self.obs.state) + noise).clamp_(-1.0, 1.0)
            seen = _tensors(self.obs)
            step = self.env.step(action)
            rows.append(seen | {name: getattr(step, name).clone() for name in _OUTCOME})
            rows[-1]["action"] = action
            ended = step.terminated | step.truncated
            if not finals or ended.any():
                last = _tensors(step.final_obs)
                finals.append({name: each[ended] for name, each in last.items()})
            self.obs = step.obs
        packed: dict[str, Any] = {name: torch.stack([r[name] for r in rows]) for name in rows[0]}
        packed |= {f"final_{name}": torch.cat([f[name] for f in finals]) for name in finals[0]}
        return packed | {_VERSION: self.version}


def _tensors(obs: Observation) -> dict[str, Tensor]:
    # Copies: an environment may reuse its memory.
    frames = {} if obs.frames is None else {"frames": obs.frames.clone()}
    return {"state": obs.state.clone(), **frames}
