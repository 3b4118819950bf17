# SPDX-License-Identifier: Apache-2.0
"""The learner of a reward from data alone: no environment, no files."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from pureward.data.frames import FrameBank
from pureward.offline.verdict import HELD_OUT_LOGS, LOGS, PAID
from pureward.online.learner import RewardLearner
from pureward.online.online_reward import SMALL
from pureward.online.supervision import Supervision, subset
from pureward.rewards.annotations import split_by_episode
from pureward.rewards.config import RewardConfig
from pureward.rewards.methods import METHODS
from pureward.rewards.priors.estimated import FEWEST_EPISODES
from pureward.rewards.regression import Pass, RewardModel
from pureward.runs.checkpoint import flattened, under

#: Settings for minutes on a CPU: those of `OnlineReward`, without the memory of a stream. The data
#: does not change, so D takes larger steps, and r_φ stops when its held-out error no longer falls.
FIT = replace(
    SMALL,
    learning_rate=1e-3,
    batch=32,
    memory=0,
    model=replace(SMALL.model, epochs=20, patience=3),
)
#: Updates of D by default.
UPDATES = 1000
_PROBE_FRAMES = 1024


class LoggedFrames:
    """Frames of logs as the unlabeled data of a discriminator."""

    def __init__(self, bank: FrameBank, chosen: Tensor) -> None:
        """Use the frames of some episodes.

        Args:
            bank: frames of all logs.
            chosen: whether to use each row, bool (rows,).
        """
        self.bank, self.device = bank, bank.device
        self._rows = chosen.nonzero()[:, 0]

    @property
    def capacity(self) -> int:
        """Number of frames: all are there from the start."""
        return len(self._rows)

    def __len__(self) -> int:
        """Number of frames."""
        return len(self._rows)

    def sample_steps(self, batch: int, generator: torch.Generator) -> Tensor:
        """Sample rows uniformly with replacement, int64 (batch,)."""
        at = torch.randint(len(self), (batch,), generator=generator, device=self.device)
        return self._rows[at]

    def arrival_frames(self, steps: Tensor) -> Tensor:
        """Return the frames of rows, uint8 (batch, channels, height, width)."""
        return self.bank[steps]

    def episodes(self, steps: Tensor) -> Tensor:
        """Return the episode of each row."""
        return self.bank.episodes[steps]


def held_out_logs(episodes: Tensor) -> Tensor:
    """Choose a fifth of the logs, at least 5, that D does not train on: there η is estimated.

    D learns that the logs it trains on are unlabeled, so that on them η̂ would be too low.

    Args:
        episodes: number of each frame's episode, from 0, int64 (frames,).

    Returns:
        Whether each frame is held out, bool (frames,); none of them if there are too few logs.
    """
    every = min(5, (int(episodes.max()) + 1) // FEWEST_EPISODES)
    return episodes % every == 0 if every > 1 else torch.zeros_like(episodes, dtype=torch.bool)


def episode_means(values: Tensor, episodes: Tensor) -> Tensor:
    """Return the mean value of each episode that has any.

    Args:
        values: of frames, float (frames,).
        episodes: number of each frame's episode, from 0, int64 (frames,).
    """
    counts = episodes.bincount()
    return (episodes.bincount(values) / counts)[counts > 0]


class Fitter:
    """D, r_φ and η of a method on fixed data; `fit` adds files and a progress bar."""

    def __init__(
        self,
        data: Supervision,
        logs: FrameBank,
        *,
        method: str,
        prior: str | float | None = None,
        failures: FrameBank | None = None,
        failed_logs: Tensor | None = None,
        annotated: FrameBank | None = None,
        config: RewardConfig = FIT,
        seed: int = 0,
    ) -> None:
        """Build the networks.

        Args:
            data: positives of D, and frames for probes.
            logs: unlabeled frames.
            method: a name in `METHODS`, not "truth".
            prior: η, or how it is found; None for the method's own, or 0.5.
            failures: known failures, for the risk `nnpnu`.
            failed_logs: whether each log is known to fail, bool (episodes,), for probes alone.
            annotated: frames with rewards for r_φ; None if the positives are annotated.
            config: settings of the reward.
            seed: of weights and sampling.
        """
        row = METHODS[method]
        held_out = held_out_logs(logs.episodes)
        self.method, self.logs = method, LoggedFrames(logs, ~held_out)
        self.learner = RewardLearner(
            config,
            data,
            LoggedFrames(logs, held_out) if held_out.any() else self.logs,
            method=method,
            prior=prior,
            failures=failures,
            annotated=annotated,
            probe_frames=_PROBE_FRAMES,
            seed=seed,
        )
        if self.learner.discriminator is not None:
            self.learner.discriminator.captured = logs.device.type == "cuda"
        # Held-out episodes with rewards that r_φ has not seen, not even to stop in time.
        self._unseen = data.held_out if annotated is None else None
        self.held_out = self._count_held_out(data)
        """Number and kind of held-out episodes: those of the probes or those of r_φ's error,
        whichever are fewer."""
        self.probed_logs = HELD_OUT_LOGS if held_out.any() else LOGS
        """Which logs P(success) is that of."""
        rated = row.needs_annotations and annotated is None
        self.positives = "annotated episodes" if rated else "demonstrations"
        """What D learns from."""
        passed = {"failures": failures is not None, "stack": data.train.stack > 1}
        self.given = [name for name, is_given in passed.items() if is_given]
        """Which of the options that a verdict may name as remedies were given."""
        # Failures in the data are better for a probe: D does not learn from them.
        known = {} if failures is None else {"failure": failures}
        banks = known | data.sources() | {"replay": logs}
        rows = {name: subset(bank, _PROBE_FRAMES) for name, bank in banks.items()}
        self._probed = {name: bank[rows[name]] for name, bank in banks.items()}
        self._episodes = {name: bank.episodes[rows[name]] for name, bank in banks.items()}
        none = torch.zeros(int(logs.episodes.max()) + 1, dtype=torch.bool)
        failed = (none if failed_logs is None else failed_logs).to(logs.device)
        self._failed_rows = failed[self._episodes["replay"]].nonzero()[:, 0]
        self._generator = torch.Generator(logs.device).manual_seed(seed)
        self.updates = 0
        """Updates of D so far."""

    @property
    def has_discriminator(self) -> bool:
        """Whether `learn` has something to update."""
        return self.learner.adversary is not None

    def fit_model(self, progress: Callable[[Pass], None] | None = None) -> dict[str, float]:
        """Fit r_φ if the method has one, and return its errors; call it once, before `learn`."""
        report, model = self.learner.fit(progress), self.learner.model
        if report is None or model is None:
            return {}
        values, (bank, rows) = {"model/error": report.train_error}, self._rated(model)
        if len(rows):
            rewards = bank.rewards[rows]
            error = model.error(bank[rows], rewards, torch.arange(len(rows)))
            variance = float(rewards.double().var(correction=0))
            values |= {"model/held_out_error": error, "model/variance": variance}
            if rewards.min() < rewards.max():
                values["model/explained"] = max(-1.0, 1 - error / variance)
        return values

    def reward_range(self) -> tuple[float, float] | None:
        """Return the lowest and highest reward that r_φ learns from, if the method has one."""
        if self.learner.model is None:
            return None
        low, high = self.learner.annotated.rewards.aminmax()
        return float(low), float(high)

    def _rated(self, model: RewardModel) -> tuple[FrameBank, Tensor]:
        """Frames with rewards, and the rows of them on which the error of r_φ is measured."""
        if self._unseen is not None:
            return self._unseen, torch.arange(len(self._unseen))
        bank = self.learner.annotated
        return bank, split_by_episode(len(bank), bank.episodes, model.config.held_out)[1]

    def _count_held_out(self, data: Supervision) -> tuple[int, str]:
        model, counts = self.learner.model, []
        if self.has_discriminator or self._unseen is not None:
            held_out = data.held_out
            counts.append((0 if held_out is None else len(held_out.episodes.unique()), "episodes"))
        if model is not None and self._unseen is None:
            bank, rows = self._rated(model)
            share = f"annotations ({model.config.held_out:.0%} of all)"
            counts.append((len(bank.episodes[rows].unique()), share))
        return min(counts)

    def learn(self, updates: int) -> dict[str, float]:
        """Update D and return means of its metrics, with one host sync."""
        metrics = self.learner.update(self.logs, self._generator, updates)
        self.updates += updates
        return metrics

    def prior(self) -> dict[str, float]:
        """Return D's η, if the method has one, without a new estimate."""
        discriminator = self.learner.discriminator
        if discriminator is None or not METHODS[self.method].takes_prior:
            return {}
        return {"prior": float(discriminator.prior)}

    def probe(self) -> dict[str, float]:
        """Measure D and r_φ on every kind of frame, and the rewards of the logs and of others."""
        spec, rewards = self.learner.learned.spec, self.rewards()
        top = spec.ceiling if spec.reward == "imitation" else math.inf
        logs = rewards.pop("replay")
        means = {"mean": logs.mean(), "saturated": (logs >= top).float().mean()}
        episodes, failed = self._episodes, self._failed_rows
        if len(failed):
            rewards["failed_logs"] = logs[failed]
            episodes = episodes | {"failed_logs": episodes["replay"][failed]}
        means |= {name: values.mean() for name, values in rewards.items()}
        for name, share in (("failure", "paid_failures"), ("failed_logs", "paid_failed_logs")):
            if {name, "held_out"} <= rewards.keys():
                paid = episode_means(rewards[name], episodes[name]) > PAID * means["held_out"]
                means[share] = paid.float().mean()
        found = torch.stack(list(means.values())).tolist()
        return self.learner.probe() | {
            f"reward/{name}": value for name, value in zip(means, found, strict=True)
        }

    def rewards(self) -> dict[str, Tensor]:
        """Return learned rewards of some frames of every source, by name."""
        return {name: self.learner.learned(frames) for name, frames in self._probed.items()}

    def tensors(self) -> dict[str, Tensor]:
        """Return all that a resumed fit needs, besides the data."""
        return {
            **flattened("learner", self.learner.tensors()),
            "generator": self._generator.get_state(),
            "updates": torch.tensor(self.updates),
        }

    def load_tensors(self, saved: Mapping[str, Tensor]) -> None:
        """Continue from what `tensors` returned."""
        self.learner.load_tensors(under("learner", saved))
        self._generator.set_state(saved["generator"].cpu())
        self.updates = int(saved["updates"])
