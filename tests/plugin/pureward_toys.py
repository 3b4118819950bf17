"""A plugin: one toy of each kind that a package can register."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pureward import (
    AGENTS,
    ENVIRONMENTS,
    EXECUTORS,
    METHODS,
    NETWORKS,
    PRIORS,
    READERS,
    RISKS,
    TASKS,
)
from pureward.agents import Agent, AgentConfig, AgentKind, Batch
from pureward.data.dataset import Dataset, Options, Reader
from pureward.data.episodes import Episode
from pureward.distributed.actors import HOSTS
from pureward.distributed.actors.worker import Actor, Spec
from pureward.distributed.jobs import Job, Result
from pureward.envs import BatchEnv
from pureward.rewards.network import FrameNetwork, NetworkConfig, scaled
from pureward.rewards.priors import Prior, PriorData
from pureward.rewards.risks import Risk, RiskKind
from pureward.types import Observation, Step

TASKS.register("toy-task")(replace(TASKS["reach"], name="toy-task", horizon=20))

METHODS.register("toy-method")(replace(METHODS["nn-pugail"], summary="a toy", risk="toy-risk"))


@ENVIRONMENTS.register("toy-env")
class Line(BatchEnv):
    """A point on a line that should be at its middle; frames show it as a white bar."""

    def __init__(self, *, worlds: int, device, seed: int, cameras: bool, stagger: bool) -> None:
        self.name, self.worlds, self.device, self.stagger = "toy-env", worlds, device, stagger
        self.state_size = self.action_size = 1
        self.horizon, self.control_step = 10, 0.1
        self.frame_shape = (3, 64, 64) if cameras else None
        self.elapsed = torch.zeros(worlds, dtype=torch.int64, device=device)
        self._random = torch.Generator(device)
        self.seed(seed)

    def seed(self, seed: int) -> None:
        self._random.manual_seed(seed)

    def reset(self) -> Observation:
        self.elapsed.zero_()
        self._place = self._sampled()
        return self._seen()

    def step(self, action: Tensor) -> Step:
        self._place = (self._place + 0.2 * action).clamp(-1.0, 1.0)
        self.elapsed += 1
        near = self._place.abs().flatten() < 0.2
        arrival, ended = self._seen(), self.elapsed >= self.horizon
        if self.resets:
            self._place = torch.where(ended[:, None], self._sampled(), self._place)
            self.elapsed.masked_fill_(ended, 0)
        return Step(
            obs=self._seen(),
            reward=near.float(),
            terminated=torch.zeros_like(ended),
            truncated=ended,
            success=near,
            final_obs=arrival,
        )

    def _sampled(self) -> Tensor:
        shape = (self.worlds, 1)
        return 2.0 * torch.rand(shape, generator=self._random, device=self.device) - 1.0

    def _seen(self) -> Observation:
        frames = None
        if self.frame_shape is not None:
            columns = torch.linspace(-1.0, 1.0, 64, device=self.device)
            bar = ((columns - self._place).abs() < 0.1).to(torch.uint8) * 255
            frames = bar[:, None, None, :].expand(self.worlds, 3, 64, 64).contiguous()
        return Observation(state=self._place.clone(), frames=frames)


@dataclass(frozen=True, kw_only=True)
class ToyConfig(AgentConfig):
    """Settings of the toy agent."""

    rate: float = 1e-2
    """Adam's step size."""


class ToyPolicy(nn.Sequential):
    """One layer from states to actions."""

    def __init__(self, config: ToyConfig, state_size: int, action_size: int) -> None:
        super().__init__(nn.Linear(state_size, action_size), nn.Tanh())


class ToyAgent(Agent):
    """A deterministic policy gradient through a critic of the reward."""

    def __init__(self, config: ToyConfig, *, state_size, action_size, device, seed) -> None:
        torch.manual_seed(seed)
        self.config, self.rate = config, config.rate
        self.state_size, self.action_size = state_size, action_size
        self.policy = ToyPolicy(config, state_size, action_size).to(device)
        inputs = state_size + action_size
        self.critic = nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
        self.weights = [*self.policy.parameters(), *self.critic.parameters()]

    @torch.no_grad()
    def act(self, state: Tensor, noise: Tensor | None = None) -> Tensor:
        action = self.policy(state)
        return action if noise is None else (action + noise).clamp(-1.0, 1.0)

    def update(self, batch: Batch) -> dict[str, Tensor]:
        taken = self.critic(torch.cat([batch.state, batch.action], dim=1)).squeeze(1)
        loss = F.mse_loss(taken, batch.reward)
        proposed = self.critic(torch.cat([batch.state, self.policy(batch.state)], dim=1)).mean()
        # torch.optim takes 4 seconds to import.
        gradients = torch.autograd.grad(loss - proposed, self.weights)
        with torch.no_grad():
            for weight, gradient in zip(self.weights, gradients, strict=True):
                weight -= self.rate * gradient
        return {"critic/loss": loss.detach()}

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        yield from ((f"policy.{name}", t) for name, t in self.policy.state_dict().items())
        yield from ((f"critic.{name}", t) for name, t in self.critic.state_dict().items())

    def policy_tensors(self) -> dict[str, Tensor]:
        return self.policy.state_dict()


AGENTS.register("toy-agent")(AgentKind(config=ToyConfig, make=ToyAgent, policy=ToyPolicy))


def toy_risk(
    positive_logits,
    unlabeled_logits,
    *,
    prior,
    slack=0.0,
    step_back=1.0,
    loss="logistic",
    even=False,
):
    """Hinge losses of both batches."""
    positive = F.relu(1.0 - positive_logits).mean()
    negative = F.relu(1.0 + unlabeled_logits).mean()
    value = positive + negative
    never = torch.zeros((), dtype=torch.bool, device=value.device)
    return Risk(value=value, objective=value, positive=positive, negative=negative, violated=never)


RISKS.register("toy-risk")(RiskKind(function=toy_risk))


@PRIORS.register("toy-prior")
class ToyPrior(Prior):
    """The share of the agent's frames that D takes as successes, in small steps."""

    wants = frozenset({"scores"})

    def __init__(self, start: float) -> None:
        self.eta = start

    def __call__(self, data: PriorData) -> float:
        if data.unlabeled_logits is not None:
            share = (data.unlabeled_logits > 0).float().mean().item()
            self.eta = 0.9 * self.eta + 0.1 * min(0.9, max(0.1, share))
        return self.eta

    @property
    def bounds(self) -> tuple[float, float]:
        return min(0.1, self.eta), max(0.9, self.eta)

    def state_dict(self) -> dict[str, float]:
        return {"eta": self.eta}

    def load_state_dict(self, state) -> None:
        self.eta = state["eta"]


@NETWORKS.register("toy-network")
class ToyNetwork(FrameNetwork):
    """One linear layer on frames of a quarter of the size."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        pixels = (config.height // 4) * (config.width // 4)
        self.head = nn.Linear(config.frame_channels * pixels, 1)

    def embed(self, frames: Tensor) -> Tensor:
        return F.avg_pool2d(scaled(frames), 4).flatten(1)


def read_npz(path: Path, options: Options) -> Dataset:
    """Episodes of equal length: frames (episodes, T + 1, 3, 64, 64) and rewards (episodes, T)."""
    with np.load(path) as file:
        frames, rewards = torch.from_numpy(file["frames"]), torch.from_numpy(file["rewards"])
    parts = zip(frames, rewards, options.splits(len(frames)), strict=True)
    episodes = tuple(Episode(frames=f, rewards=r, split=s) for f, r, s in parts)
    return Dataset(path=path, task=None, lossy=False, episodes=episodes)


READERS.register("toy-reader")(Reader(can_read=lambda path: path.suffix == ".npz", read=read_npz))


class Done:
    """A job that has ended."""

    def __init__(self, finished: bool) -> None:
        self.finished = finished

    def running(self) -> bool:
        return False

    def result(self) -> Result:
        return "finished" if self.finished else "stopped"

    def last_line(self) -> str:
        return ""

    def stop(self) -> None:
        pass

    def wait(self) -> None:
        pass


@EXECUTORS.register("toy-executor")
class Inline:
    """Runs each job in this process when it is started."""

    def __init__(self, *, device: str, at_once: int) -> None:
        self.at_once = 1

    def start(self, job: Job) -> Done:
        return Done(job.run())


@HOSTS.register("toy-executor")
class InlineHost:
    """Steps an actor in this process when it is asked."""

    def __init__(self, address: str, actors: int) -> None:
        self.weights = b""
        self.actors: dict[int, Actor] = {}
        self.ready: list[tuple[int, bytes | None]] = []
        self.keys = itertools.count()

    def publish(self, weights: bytes) -> None:
        self.weights = weights

    def start(self, spec: Spec) -> int:
        key = next(self.keys)
        self.actors[key] = Actor(spec)
        return key

    def ask(self, key: int, at_random: bool) -> None:
        self.ready.append((key, self.actors[key].advance(self.weights, at_random)))

    def replies(self, seconds: float) -> list[tuple[int, bytes | None]]:
        ready, self.ready = self.ready, []
        return [(key, reply) for key, reply in ready if key in self.actors]

    def kill(self, key: int) -> None:
        del self.actors[key]

    def close(self) -> None:
        self.actors.clear()
