# SPDX-License-Identifier: Apache-2.0
"""r_φ, a reward regressed on annotated frames (Eq. 2), alone or as the minimum of an ensemble."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Integral

import torch
import torch.nn.functional as F
from torch import Tensor

from pureward.adam import Adam
from pureward.capture import CapturedCall
from pureward.errors import InputError, check_seed
from pureward.rewards.annotations import check_shapes, finite_rewards, split_by_episode
from pureward.rewards.arithmetic import Arithmetic, in_batches, logits, resolved, usable_device
from pureward.rewards.compose import ensemble_minimum
from pureward.rewards.config import RewardConfig, check_reward_config
from pureward.rewards.network import FrameNetwork, seeded_network


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One epoch of one member."""

    member: int
    """Index of the network in the ensemble."""
    epoch: int
    """From 1."""
    fitting_error: float
    """Mean squared error of the training batches, on random views."""
    held_out_error: float | None
    """Mean squared error on held-out episodes after the epoch, without random views."""


@dataclass(frozen=True, kw_only=True)
class FitReport:
    """Errors of a fit; the gate assumes that `train_error` is small."""

    passes: tuple[Pass, ...]
    """Every epoch of every member."""
    train_error: float
    """Mean squared error of the ensemble's minimum on training frames, without random views."""
    held_out_error: float | None
    """The same on held-out episodes; None without any."""
    kept_epochs: tuple[int, ...]
    """The epoch of each member's final weights."""


class RewardModel:
    """Predicts the annotated reward of a frame; `predict` is the minimum over the members."""

    def __init__(
        self,
        config: RewardConfig,
        *,
        members: int = 1,
        device: torch.device | str = "cpu",
        seed: int = 0,
        arithmetic: Arithmetic = "auto",
    ) -> None:
        """Build the networks of an ensemble.

        Args:
            config: of the network, and in `model` of the fit.
            members: ensemble size; the prediction is the minimum over members.
            device: of the networks.
            seed: of the initial weights, batches, random views and dropout.
            arithmetic: "auto" for the fastest that the device supports.
        """
        seed = check_seed(seed)
        check_reward_config(config)
        if not isinstance(members, Integral) or not 1 <= members <= 64:
            raise InputError(f"members must be a whole number from 1 to 64, got {members!r}; try 5")
        self.config = config.model
        self.device = usable_device(device)
        self.arithmetic: Arithmetic = resolved(arithmetic, config.network, self.device)
        seeds = [seed * members + member for member in range(members)]
        self.networks = [seeded_network(config.network, s, self.device) for s in seeds]
        rate = self.config.learning_rate
        self.optimizers = [Adam(dict(each.named_parameters()), rate) for each in self.networks]
        self.generators = [torch.Generator(self.device).manual_seed(s) for s in seeds]
        self.lowest = torch.zeros((), dtype=torch.float32, device=self.device)
        """The smaller of 0 and the lowest annotated reward so far; `RewardSpec.lowest`."""

    def fit(
        self,
        frames: Tensor,
        rewards: Tensor,
        *,
        episodes: Tensor | None = None,
        progress: Callable[[Pass], None] | None = None,
    ) -> FitReport:
        """Train every member on annotated frames (Eq. 2).

        Args:
            frames: (n, channels, height, width) uint8, on any device.
            rewards: (n,) finite.
            episodes: (n,) integers, the episode of each frame. Frames of one episode are near
                copies, so whole episodes are held out; None holds nothing out.
            progress: called after every epoch.

        Returns:
            The errors of every epoch and of the result.
        """
        check_shapes(self.networks[0], frames, rewards, episodes)
        rewards = finite_rewards(rewards, episodes)
        train, held_out = split_by_episode(len(frames), episodes, self.config.held_out)
        if self.config.patience is not None and len(held_out) == 0:
            raise InputError(
                "patience needs held-out episodes, got none; pass episodes= and held_out > 0"
            )
        self.lowest = torch.minimum(self.lowest, rewards.min().to(self.device))
        passes: list[Pass] = []
        kept = [
            self._fit_member(member, frames, rewards, train, held_out, passes, progress)
            for member in range(len(self.networks))
        ]
        return FitReport(
            passes=tuple(passes),
            train_error=self.error(frames, rewards, train),
            held_out_error=self.error(frames, rewards, held_out) if len(held_out) else None,
            kept_epochs=tuple(kept),
        )

    def update(self, frames: Tensor, rewards: Tensor) -> dict[str, Tensor]:
        """Take one step of every member on newly annotated frames.

        Args:
            frames: (n, channels, height, width) uint8, on any device.
            rewards: (n,) finite; not checked on CUDA, which would need a host sync.

        Returns:
            The mean squared error, detached.
        """
        check_shapes(self.networks[0], frames, rewards)
        if not rewards.is_cuda:
            rewards = finite_rewards(rewards)
        frames = frames.to(self.device, non_blocking=True)
        rewards = rewards.detach().to(self.device, torch.float32)
        self.lowest = torch.minimum(self.lowest, rewards.min())
        errors = [self._step(member, frames, rewards) for member in range(len(self.networks))]
        return {"reward/error": torch.stack(errors).mean()}

    def member_predictions(self, frames: Tensor, batch_size: int | None = None) -> Tensor:
        """Return every member's prediction, (members, batch)."""
        return torch.stack([self._predict(each, frames, batch_size) for each in self.networks])

    def predict(self, frames: Tensor, batch_size: int | None = None) -> Tensor:
        """Return the predicted reward (batch,), the minimum over the members."""
        return ensemble_minimum(self.member_predictions(frames, batch_size))

    def error(self, frames: Tensor, rewards: Tensor, rows: Tensor) -> float:
        """Return the mean squared error of the prediction on some rows of the data."""
        return _squared_error(self.predict, frames, rewards, rows)

    @torch.no_grad()
    def _predict(
        self, network: FrameNetwork, frames: Tensor, batch_size: int | None = None
    ) -> Tensor:
        score = partial(logits, network.eval(), arithmetic=self.arithmetic)
        return in_batches(score, frames, batch_size, self.device)

    def _step(self, member: int, frames: Tensor, rewards: Tensor) -> Tensor:
        network, optimizer = self.networks[member], self.optimizers[member]
        predicted = logits(network.train(), frames, self.arithmetic, self.generators[member])
        error = F.mse_loss(predicted, rewards)
        network.zero_grad()
        error.backward()
        optimizer.step()
        return error.detach()

    def _fit_member(
        self,
        member: int,
        frames: Tensor,
        rewards: Tensor,
        train: Tensor,
        held_out: Tensor,
        passes: list[Pass],
        progress: Callable[[Pass], None] | None,
    ) -> int:
        """Train one member; return the epoch of its final weights."""
        network, generator = self.networks[member], self.generators[member]
        step = self._stepper(member)
        predict = partial(self._predict, network)
        best_error, best_epoch, best_weights = float("inf"), self.config.epochs, None
        for epoch in range(1, self.config.epochs + 1):
            errors = []
            order = torch.randperm(len(train), generator=generator, device=self.device)
            batches = train[order.to(train.device)].split(self.config.batch_size)
            for number, rows in enumerate(batches):
                if self.config.decay:
                    done = (epoch - 1 + number / len(batches)) / self.config.epochs
                    rate = self.config.learning_rate * 0.5 * (1 + math.cos(math.pi * done))
                    self.optimizers[member].set_rate(rate)
                error = step(frames[rows].to(self.device), rewards[rows].to(self.device))
                errors.append(error * len(rows))
            held = _squared_error(predict, frames, rewards, held_out) if len(held_out) else None
            fitting = float(torch.stack(errors).sum()) / len(train)
            passes.append(
                Pass(member=member, epoch=epoch, fitting_error=fitting, held_out_error=held)
            )
            if progress is not None:
                progress(passes[-1])
            if self.config.patience is None or held is None:
                continue
            if held < best_error:
                best_error, best_epoch = held, epoch
                best_weights = {k: v.clone() for k, v in network.state_dict().items()}
            elif epoch - best_epoch >= self.config.patience:
                break
        self.optimizers[member].set_rate(self.config.learning_rate)  # for `update`
        if best_weights is not None:
            network.load_state_dict(best_weights)
        return best_epoch

    def _stepper(self, member: int) -> Callable[[Tensor, Tensor], Tensor]:
        """`_step` of a member; on CUDA, full batches are replayed as a graph."""
        plain: Callable[[Tensor, Tensor], Tensor] = partial(self._step, member)
        if self.device.type != "cuda":
            return plain
        graph: CapturedCall | None = None

        def step(frames: Tensor, rewards: Tensor) -> Tensor:
            nonlocal graph
            if len(frames) != self.config.batch_size:
                return plain(frames, rewards)  # the last batch of an epoch
            if graph is None:
                graph = CapturedCall(
                    plain,
                    (frames, rewards),
                    kept=self.optimizers[member].changed(),
                    generators=[self.generators[member]],
                )
            return graph(frames, rewards)

        return step


def _squared_error(
    predict: Callable[[Tensor], Tensor], frames: Tensor, rewards: Tensor, rows: Tensor
) -> float:
    total = 0.0
    for part in rows.split(4096):
        predicted = predict(frames[part])
        total += F.mse_loss(predicted, rewards[part].to(predicted.device), reduction="sum")
    return float(torch.as_tensor(total) / len(rows))
