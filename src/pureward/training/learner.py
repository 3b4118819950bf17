# SPDX-License-Identifier: Apache-2.0
"""The learning part of a run: agent, replay, exploration and reward, joined by Algorithm 1.

On CUDA, scoring new steps, the updates of the discriminator and the updates of the policy are one
captured graph each. Metrics stay on the device until they are read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from pureward.agents import AGENTS
from pureward.agents.exploration import Exploration
from pureward.capture import Beside, CapturedCall
from pureward.data.replay.memory import FrameMemory
from pureward.data.replay.replay import Replay
from pureward.envs import BatchEnv
from pureward.errors import TrainingError
from pureward.purl import Purl
from pureward.runs.checkpoint import flattened, under
from pureward.runs.config import RunConfig
from pureward.training.guide import Guide
from pureward.training.meter import Meter
from pureward.training.reward import build_labels, load_reward_learner
from pureward.types import Observation, Step


class Learner:
    """Acts in a batch of worlds, stores their steps, and learns from them."""

    def __init__(self, config: RunConfig, env: BatchEnv) -> None:
        """Build all parts on the device of the environment."""
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
        self.reward = load_reward_learner(config, env, self.replay)  # None: the task's own
        self.labels = build_labels(config, self.replay, self.reward)
        self.purl = Purl(
            agent=self.agent,
            replay=self.replay,
            labels=self.labels,
            batch=config.batch,
            generator=self.generator,
            adversary=self.reward.adversary if self.reward else None,
            learned=self.reward.learned if self.reward else None,
        )
        self.updates = 0
        self._agent_meter = Meter(env.device, updates=config.updates_per_step)
        self._reward_meter = Meter(env.device)
        self._captured: dict[str, CapturedCall] = {}
        # On CUDA, D learns beside the policy, if the policy's updates do not read D.
        cached = bool(self.labels.tensors()) and self.purl.absorbing_reward is None
        apart = self.purl.adversary is not None and cached and self._captures()
        self._beside = Beside(env.device) if apart else None

    def act(self, state: Tensor, *, at_random: bool = False) -> Tensor:
        """Return exploring actions (worlds, action size).

        Args:
            state: (worlds, state size).
            at_random: sample uniform actions instead of the policy's with noise.
        """
        self.agent.observe(state)
        noise = self.exploration.sample(self.generator)
        action = self.exploration.random_actions() if at_random else self.agent.act(state, noise)
        if self.guide is None:
            return action
        return self._run("guide", self.guide, self.guide.tensors().values, action, noise)

    def add(self, obs: Observation, action: Tensor, step: Step) -> None:
        """Add one step of every world to the replay, and score it if scores are cached."""
        self.replay.add(obs, action, step)
        if self.reward and self.reward.absorbing:
            self.reward.absorbing.arrive(step.terminated, step.terminated | step.truncated)
        changed = self._step_tensors()
        if changed:
            self._run("arrive", self._arrive, changed.values)

    def end_episodes(self) -> None:
        """Leave out the episodes that are under way: the next step begins new ones."""
        self.replay.end_episodes()
        if self.reward and self.reward.absorbing:
            self.reward.absorbing.end_episodes()

    @property
    def memory(self) -> FrameMemory | None:
        """The sample of all past agent frames, if D uses one."""
        return self.purl.adversary.memory if self.purl.adversary else None

    def learn_reward(self) -> None:
        """Update D and score some replayed steps again.

        It also happens while actions are random: a policy must not start on an untrained D.
        """
        if self._can_update_discriminator():
            self.update_discriminator()
            self.refresh_scores()

    def learn(self) -> None:
        """Make the updates of one control step."""
        if self._beside is None or not self._can_update_discriminator():
            self.learn_reward()
            self.update_policy()
        else:
            with self._beside:
                self.update_discriminator()
            self.update_policy()
            self._beside.wait()
            self.refresh_scores()
        self.updates += self.config.updates_per_step
        if self.device.type == "cpu":
            self.check()  # on CUDA this would wait for the device

    def update_discriminator(self) -> None:
        """Make D's updates of one control step."""
        # Graphs that run side by side may not share a generator.
        own = self.reward.generators() if self.reward else []
        self._run(
            "discriminate", self._discriminate, self._changed_by_discriminator, generators=own
        )

    def refresh_scores(self) -> None:
        """Score some replayed steps again, if scores are cached."""
        scores = self.labels.tensors()
        if scores:
            self._run("refresh", self._refresh, scores.values)

    def update_policy(self) -> None:
        """Make the policy's updates of one control step."""
        self._run("improve", self._improve, self._changed_by_policy)

    def read_metrics(self) -> dict[str, float]:
        """Return means since the last call; waits for the device, raises if one is not finite."""
        return self._agent_meter.read() | self._reward_meter.read()

    def check(self) -> None:
        """Raise TrainingError if a metric or a weight is not finite."""
        self._reward_meter.check()
        self._agent_meter.check()
        for name, finite in self.agent.finite().items():
            if not finite:
                raise TrainingError(
                    f"a weight of the {name} is not finite at update {self.updates}; the last "
                    "good checkpoint is kept: lower the learning rates"
                )

    def state_dict(self) -> dict[str, Tensor]:
        """Return all that learning changes, by name.

        Without the replay, of the frame memory only a part is saved: if it were empty after a
        resume, D would forget failures.
        """
        with_replay, memory = self.config.save_replay, self.memory
        return {
            **flattened("agent", self.agent.state_dict()),
            **flattened("reward", self.reward.tensors() if self.reward else {}),
            **flattened("replay", self.replay.state_dict() if with_replay else {}),
            **flattened("thinned", {} if with_replay or memory is None else memory.thinned()),
            **self._copied(),
            "generator": self.generator.get_state(),
            "updates": torch.tensor(self.updates),
        }

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Load what `state_dict` returned."""
        self.agent.load_state_dict(under("agent", saved))
        if self.reward:
            self.reward.load_tensors(under("reward", saved))
        if self.config.save_replay:
            self.replay.load_state_dict(under("replay", saved))
        elif self.memory is not None:
            self.memory.load_thinned(under("thinned", saved))
        for name, tensor in self._copied().items():
            tensor.copy_(saved[name])
        self.generator.set_state(saved["generator"].cpu())
        self.updates = int(saved["updates"])

    def _copied(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint that are loaded by a copy, by name."""
        return {
            **flattened("remembered", self._step_tensors() if self.config.save_replay else {}),
            **flattened("agent_meter", self._agent_meter.tensors()),
            **flattened("reward_meter", self._reward_meter.tensors()),
            **flattened("guide", self.guide.tensors() if self.guide else {}),
            "exploration": self.exploration.scale,
            "noise": self.exploration.noise,
        }

    def _step_tensors(self) -> dict[str, Tensor]:
        """What is stored per agent step outside the replay: frame memory and scores."""
        memory = {} if self.memory is None else self.memory.tensors()
        frames = {f"memory.{name}": value for name, value in memory.items()}
        return frames | {f"labels.{name}": value for name, value in self.labels.tensors().items()}

    def _can_update_discriminator(self) -> bool:
        return self.reward is not None and self.reward.can_update

    # A captured call must return a tensor.

    def _arrive(self) -> Tensor:
        self.purl.arrive()
        return self._agent_meter.tensors()["count"]

    def _refresh(self) -> Tensor:
        self.labels.refresh()
        return self._agent_meter.tensors()["count"]

    def _discriminate(self) -> Tensor:
        rows = self.purl.discriminate(self.config.reward.updates)
        return torch.stack([self._reward_meter.add(row) for row in rows])

    def _improve(self) -> Tensor:
        return self._agent_meter.add(self.purl.improve(self.config.updates_per_step))

    def _changed_by_policy(self) -> list[Tensor]:
        agent = [tensor for _, tensor in self.agent.tensors()]
        return [*agent, *self._agent_meter.tensors().values()]

    def _changed_by_discriminator(self) -> list[Tensor]:
        trained = self.reward.trained() if self.reward else []
        return [*trained, *self._reward_meter.tensors().values()]

    def _run(
        self,
        name: str,
        call: Callable[..., Tensor],
        changed: Callable[[], Iterable[Tensor]],
        *inputs: Tensor,
        generators: Sequence[torch.Generator] = (),
    ) -> Tensor:
        """Make a call that changes some tensors; on CUDA, replay its captured graph."""
        if not self._captures():
            return call(*inputs)
        if name not in self._captured:
            own = generators or [self.generator]
            self._captured[name] = CapturedCall(call, inputs, kept=changed(), generators=own)
        return self._captured[name](*inputs)

    def _captures(self) -> bool:
        """Return whether calls are captured as CUDA graphs."""
        # Reading frames from host memory synchronises, which a graph cannot do.
        on_host = self.config.replay.storage == "host"
        return self.device.type == "cuda" and not on_host and self.agent.captures
