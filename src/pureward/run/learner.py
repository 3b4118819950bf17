# SPDX-License-Identifier: Apache-2.0
"""The learning half of a run: replay, agent, and the update that joins them.

On CUDA the updates of a control step (sample, reward, critic, actor, targets) are one captured
graph. Metrics stay on the device until they are read, and so does the news of a number that is
none: each metric remembers the first update at which it went bad.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from pureward.agent.d4pg import D4PG, Batch
from pureward.agent.exploration import Exploration
from pureward.capture import CapturedCall
from pureward.data.replay import Replay
from pureward.data.windows import Windows
from pureward.env import BatchEnv
from pureward.errors import TrainingError
from pureward.run.checkpoint import flattened, under
from pureward.run.config import RunConfig

# Room for the news of each metric; it must be there before the agent has named them.
_MOST_METRICS = 32


class Learner:
    """Acts, remembers and learns for a batch of worlds."""

    def __init__(self, config: RunConfig, env: BatchEnv):
        self.config = config
        self.device = env.device
        self.generator = torch.Generator(env.device).manual_seed(config.seed)
        self.agent = D4PG(
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
        self.updates = 0
        self._names: list[str] = []
        self._metrics = torch.zeros(0, device=env.device)
        self._first_bad = torch.zeros(_MOST_METRICS, dtype=torch.int64, device=env.device)
        self._captured: CapturedCall | None = None

    def act(self, state: Tensor, *, explore_only: bool) -> Tensor:
        """Actions for collecting: the policy's with noise, or uniform ones to begin with."""
        self.agent.observe(state)
        if explore_only:
            shape = (len(state), self.exploration.action_size)
            return torch.rand(shape, generator=self.generator, device=self.device) * 2.0 - 1.0
        return self.agent.act(state, self.exploration.draw(self.generator))

    def learn(self) -> None:
        """The updates that go with one control step."""
        if self.device.type == "cuda" and self._captured is None:
            self._captured = self._capture()
        self._metrics = self._captured() if self._captured else self._all_updates()
        self.updates += self.config.updates_per_step
        if self.device.type == "cpu":
            self.check()  # looking costs nothing here, so the run stops at the very update

    def read_metrics(self) -> dict[str, float]:
        """Metrics of the newest update; waits for the device and raises if one is no number."""
        self.check()
        return dict(zip(self._names, self._metrics.tolist(), strict=True))

    def check(self) -> None:
        """Raise if a metric or a weight is not finite, naming it and the update."""
        for name, update in zip(self._names, self._first_bad.tolist(), strict=False):
            if update:
                raise TrainingError(
                    f"{name} is not finite since update {update}; the last good checkpoint is "
                    "kept: lower the learning rates or look at the rewards"
                )
        for name, finite in self.agent.finite().items():
            if not finite:
                raise TrainingError(
                    f"a weight of the {name} is not finite at update {self.updates}; the last "
                    "good checkpoint is kept: lower the learning rates"
                )

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that learning changes, by name; the replay if the run saves it."""
        replay = self.replay.state_dict() if self.config.save_replay else {}
        return {
            **flattened("agent", self.agent.state_dict()),
            **flattened("replay", replay),
            "generator": self.generator.get_state(),
            "exploration": self.exploration.scale,
            "updates": torch.tensor(self.updates),
        }

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Go on from where `state_dict` was taken."""
        self.agent.load_state_dict(under("agent", saved))
        if self.config.save_replay:
            self.replay.load_state_dict(under("replay", saved))
        self.generator.set_state(saved["generator"].cpu())
        self.exploration.scale.copy_(saved["exploration"])
        self.updates = int(saved["updates"])

    def _capture(self) -> CapturedCall:
        changing = [tensor for _, tensor in self.agent.tensors()]
        return CapturedCall(
            self._all_updates,
            (),
            kept=[*changing, self._first_bad],
            generators=[self.generator],
        )

    def _all_updates(self) -> Tensor:
        """Draw once for all updates of a control step: the replay does not change between."""
        count = self.config.updates_per_step
        windows = self.replay.sample(count * self.config.batch, self.generator)
        metrics = [self._one_update(part) for part in windows.chunk(count)]
        return metrics[-1]

    def _one_update(self, windows: Windows) -> Tensor:
        batch = Batch(
            state=windows.state,
            action=windows.action,
            reward=windows.n_step_return(windows.task_reward),
            discount=windows.discount,
            next_state=windows.next_state,
        )
        named = self.agent.update(batch)
        self._names = list(named)
        metrics = torch.stack(list(named.values()))
        first_bad = self._first_bad[: len(named)]
        newly_bad = ~metrics.isfinite() & (first_bad == 0)
        first_bad.copy_(torch.where(newly_bad, self.agent.updates, first_bad))
        return metrics
