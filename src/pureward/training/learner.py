# SPDX-License-Identifier: Apache-2.0
"""The learning half of a run: replay, agent, reward, and Algorithm 1 that joins them.

On CUDA each part of a control step (scoring what came in, the updates of the discriminator,
those of the policy) is one captured graph. Metrics stay on the device until they are read.
"""

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from pureward.agents import AGENTS
from pureward.agents.exploration import Exploration
from pureward.capture import CapturedCall
from pureward.data.replay.replay import Replay
from pureward.envs import BatchEnv
from pureward.errors import TrainingError
from pureward.purl import Purl
from pureward.runs.checkpoint import flattened, under
from pureward.runs.config import RunConfig
from pureward.training.guide import Guide
from pureward.training.meter import Meter
from pureward.training.reward import build_reward
from pureward.types import Observation, Step


class Learner:
    """Acts, remembers and learns for a batch of worlds."""

    def __init__(self, config: RunConfig, env: BatchEnv):
        self.config = config
        self.device = env.device
        self.generator = torch.Generator(env.device).manual_seed(config.seed)
        self.agent = AGENTS[config.algorithm].make(
            config.agent,
            state_size=env.state_size,
            action_size=env.action_size,
            device=env.device,
            seed=config.seed,
        )
        self.replay = Replay(
            config.replay,
            worlds=env.worlds,
            horizon=env.horizon,
            state_size=env.state_size,
            action_size=env.action_size,
            frame_shape=env.frame_shape,
            device=env.device,
        )
        self.exploration = Exploration(
            config.exploration,
            worlds=env.worlds,
            action_size=env.action_size,
            generator=self.generator,
        )
        self.guide = (
            Guide(env, share=config.guided, generator=self.generator) if config.guided else None
        )
        self.reward = build_reward(config, env, self.replay)
        self.purl = Purl(
            agent=self.agent,
            replay=self.replay,
            labels=self.reward.labels,
            batch=config.batch,
            generator=self.generator,
            adversary=self.reward.adversary,
            ceiling=self.reward.ceiling,
            threshold=self.reward.threshold,
        )
        self.updates = 0
        self._agent_meter = Meter(env.device, updates=config.updates_per_step)
        self._reward_meter = Meter(env.device)  # D's updates are taken one by one
        self._captured: dict[str, CapturedCall] = {}

    def act(self, state: Tensor, *, at_random: bool = False) -> Tensor:
        """Actions for collecting: the policy's with noise, or uniform ones to begin with."""
        self.agent.observe(state)
        noise = self.exploration.draw(self.generator)
        if at_random:
            # Uniform in [−1, 1], and as correlated in time as the noise.
            action = 2.0 * torch.special.ndtr(self.exploration.noise) - 1.0
        else:
            action = self.agent.act(state, noise)
        return action if self.guide is None else self.guide(action, noise)

    def remember(self, obs: Observation, action: Tensor, step: Step) -> None:
        """Keep one step of every world, and score it where scores are kept."""
        self.replay.add(obs, action, step)
        remembered = self.reward.remembered()
        if remembered:
            self._run("arrive", self._arrive, remembered.values())

    def prepare(self) -> None:
        """Update the discriminator alone, while the policy still acts at random.

        A policy that starts on the rewards of an untrained discriminator learns to be anywhere.
        """
        if self.purl.adversary is None or len(self.replay) < self.config.reward.batch:
            return
        self._run("discriminate", self._discriminate, self._changed_by_discriminating())
        self._run("refresh", self._refresh, self.reward.labels.tensors().values())

    def learn(self) -> None:
        """The updates that go with one control step."""
        if self.purl.adversary is not None:
            self._run("discriminate", self._discriminate, self._changed_by_discriminating())
        self._run("improve", self._improve, self._changed_by_improving())
        self.updates += self.config.updates_per_step
        if self.device.type == "cpu":
            self.check()  # looking costs nothing here, so the run stops at the very update

    def read_metrics(self) -> dict[str, float]:
        """Means since the last reading; waits for the device, raises if one is no number."""
        return self._agent_meter.read() | self._reward_meter.read()

    def check(self) -> None:
        """Raise if a metric or a weight is not finite, naming it and the update."""
        self._reward_meter.check()
        self._agent_meter.check()
        for name, finite in self.agent.finite().items():
            if not finite:
                raise TrainingError(
                    f"a weight of the {name} is not finite at update {self.updates}; the last "
                    "good checkpoint is kept: lower the learning rates"
                )

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that learning changes, by name; the replay if the run saves it."""
        kept = self.config.save_replay
        return {
            **flattened("agent", self.agent.state_dict()),
            **flattened("reward", self.reward.tensors()),
            **flattened("replay", self.replay.state_dict() if kept else {}),
            **flattened("remembered", self.reward.remembered() if kept else {}),
            **flattened("agent_meter", self._agent_meter.tensors()),
            **flattened("reward_meter", self._reward_meter.tensors()),
            **flattened("guide", self.guide.tensors() if self.guide else {}),
            "generator": self.generator.get_state(),
            "exploration": self.exploration.scale,
            "noise": self.exploration.noise,
            "updates": torch.tensor(self.updates),
        }

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Go on from where `state_dict` was taken."""
        self.agent.load_state_dict(under("agent", saved))
        self.reward.load_tensors(under("reward", saved))
        if self.config.save_replay:
            self.replay.load_state_dict(under("replay", saved))
            _copy(self.reward.remembered(), under("remembered", saved))
        _copy(self._agent_meter.tensors(), under("agent_meter", saved))
        _copy(self._reward_meter.tensors(), under("reward_meter", saved))
        if self.guide:
            _copy(self.guide.tensors(), under("guide", saved))
        self.generator.set_state(saved["generator"].cpu())
        self.exploration.scale.copy_(saved["exploration"])
        self.exploration.noise.copy_(saved["noise"])
        self.updates = int(saved["updates"])

    def _arrive(self) -> Tensor:
        self.purl.arrive()
        return self._agent_meter.tensors()["count"]

    def _refresh(self) -> Tensor:
        self.reward.labels.refresh()
        return self._agent_meter.tensors()["count"]

    def _discriminate(self) -> Tensor:
        return torch.stack(
            [
                self._reward_meter.take(self.purl.discriminate())
                for _ in range(self.config.reward.updates)
            ]
        )

    def _improve(self) -> Tensor:
        self.reward.labels.refresh()
        metrics = self.purl.improve(self.config.updates_per_step)
        return self._agent_meter.take(metrics)

    def _changed_by_discriminating(self) -> list[Tensor]:
        return [*self.reward.trained(), *self._reward_meter.tensors().values()]

    def _changed_by_improving(self) -> list[Tensor]:
        agent = [tensor for _, tensor in self.agent.tensors()]
        labels = self.reward.labels.tensors().values()
        return [*agent, *labels, *self._agent_meter.tensors().values()]

    def _run(self, name: str, call: Callable[[], Tensor], changed: Iterable[Tensor]) -> None:
        """Call a part of the control step; on CUDA, as a graph captured the first time."""
        # Reading frames from the host's memory synchronises, which a graph cannot do.
        on_host = self.config.replay.storage == "host"
        if self.device.type != "cuda" or on_host or not self.agent.captures:
            call()
            return
        if name not in self._captured:
            generators = [self.generator, *self.reward.generators()]
            self._captured[name] = CapturedCall(call, (), kept=changed, generators=generators)
        self._captured[name]()


def _copy(own: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    for name, tensor in own.items():
        tensor.copy_(saved[name])
