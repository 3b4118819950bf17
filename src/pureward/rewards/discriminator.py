# SPDX-License-Identifier: Apache-2.0
"""The discriminator D_θ and its update (Algorithm 1)."""

from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pureward.adam import Adam
from pureward.capture import CapturedCall
from pureward.errors import InputError, check_seed
from pureward.rewards.arithmetic import Arithmetic, in_batches, logits, resolved, usable_device
from pureward.rewards.config import RewardConfig, check_reward_config
from pureward.rewards.network import check_stored, seeded_network
from pureward.rewards.risks import RISKS, Risk, RiskFunction, RiskKind

#: Metrics of an update: the parts of its risk, and the mean of D on both kinds of frames.
METRICS = (*(f"risk/{part}" for part in Risk._fields), "mean/positive", "mean/unlabeled")


class Discriminator:
    """Classifies frames as success (1) or failure (0); learns from positives and unlabeled."""

    def __init__(
        self,
        config: RewardConfig,
        *,
        risk: str | RiskFunction = "",
        prior: float = 0.5,
        device: torch.device | str = "cpu",
        seed: int = 0,
        captured: bool = False,
        arithmetic: Arithmetic = "auto",
    ) -> None:
        """Build network, optimizer and random generator.

        Args:
            config: network and learning settings.
            risk: a name in `RISKS`, or a function with the signature of `nnpu`; "" is the
                configuration's, or else "nnpu".
            prior: η, the share of successes expected among the agent's frames.
            device: of the network; frames of updates must be there too.
            seed: of the initial weights, random views and dropout.
            captured: on CUDA, run updates as one CUDA graph; batch sizes are then fixed by
                the first update.
            arithmetic: "auto" for the fastest that the device supports.
        """
        seed = check_seed(seed)
        check_reward_config(config)
        self.config = config
        self.risk = _risk_kind(risk or config.risk or "nnpu")
        self.device = usable_device(device)
        self.arithmetic: Arithmetic = resolved(arithmetic, config.network, self.device)
        self.network = seeded_network(config.network, seed, self.device)
        self.optimizer = Adam(dict(self.network.named_parameters()), config.learning_rate)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.prior = torch.tensor(checked_prior(prior), dtype=torch.float32, device=self.device)
        self.captured = captured
        self._capture: CapturedCall | None = None
        if captured and self.device.type != "cuda":
            raise InputError(f"captured updates need a CUDA device, got {device}; leave it False")

    def update(
        self,
        positive_frames: Tensor,
        unlabeled_frames: Tensor,
        failure_frames: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Take one step on a minibatch (Algorithm 1).

        Args:
            positive_frames: (n, channels, height, width) uint8, demonstrations or annotated.
            unlabeled_frames: (m, channels, height, width) uint8, the agent's.
            failure_frames: (k, channels, height, width) uint8, known failures, for risks that
                take them.

        Returns:
            The metrics named in `METRICS`, detached, on the device.
        """
        if (failure_frames is not None) != self.risk.takes_failures:
            name = getattr(self.risk.function, "__name__", repr(self.risk.function))
            raise InputError(
                f"known failures go with a risk that takes them, such as nnpnu, got {name} "
                f"{'with' if failure_frames is not None else 'without'} them; change either"
            )
        batches = [positive_frames, unlabeled_frames]
        if failure_frames is not None:
            batches.append(failure_frames)
        shapes = _checked_shapes(batches)
        if self.captured and self._capture is None:
            kept = self.optimizer.changed()
            self._capture = CapturedCall(
                self._step, batches, kept=kept, generators=[self.generator]
            )
        if self._capture is None:
            metrics = self._step(*batches)
        else:
            expected = [tuple(held.shape) for held in self._capture.inputs]
            if shapes != expected:
                first, given = (" and ".join(map(str, each)) for each in (expected, shapes))
                raise InputError(
                    f"a captured update takes the shapes of the first, {first}, got {given}; "
                    "keep batch sizes fixed or pass captured=False"
                )
            metrics = self._capture(*batches)
        return dict(zip(METRICS, metrics.unbind(), strict=True))

    def set_prior(self, prior: float | Tensor) -> None:
        """Change η in place, also for captured updates."""
        self.prior.fill_(checked_prior(prior))

    @torch.no_grad()
    def logits(self, frames: Tensor, batch_size: int | None = None) -> Tensor:
        """Return success logits (batch,) of uint8 frames, without random views or dropout."""
        score = partial(logits, self.network.eval(), arithmetic=self.arithmetic)
        return in_batches(score, frames, batch_size, self.device)

    def _step(self, *batches: Tensor) -> Tensor:
        """Update on frames of positives, unlabeled and, if the risk takes them, known failures."""
        frames, counts = torch.cat(batches), [len(batch) for batch in batches]
        settings: dict[str, Any] = {
            "prior": self.prior,
            "slack": self.config.slack,
            "loss": self.config.loss,
            "even": self.config.even,
        }
        # One forward pass: no batch statistics couple the samples, and a large batch is faster.
        outputs = logits(self.network.train(), frames, self.arithmetic, self.generator)
        self.network.zero_grad()
        if self._risk_is_fused(len(frames)):
            from pureward.kernels.rewards.risk import differentiated

            risk = self.risk.function
            metrics, gradient = differentiated(risk, outputs.detach(), counts[0], **settings)
            (outputs * gradient).sum().backward()  # backward(gradient) would import sympy
        else:
            positive, unlabeled, *failures = outputs.split(counts)
            if failures:
                settings["failure_logits"] = failures[0]
            result = self.risk.function(positive, unlabeled, **settings)
            result.objective.backward()
            metrics = measured(result, positive, unlabeled)
        self.optimizer.step()
        return metrics

    def _risk_is_fused(self, samples: int) -> bool:
        if self.arithmetic != "fused":
            return False
        from pureward.kernels.rewards.risk import supports

        return supports(self.risk.function, samples)


def _checked_shapes(batches: list[Tensor]) -> list[tuple[int, ...]]:
    """Check the batches of an update; return their shapes."""
    names = ("positive_frames", "unlabeled_frames", "failure_frames")
    for name, batch in zip(names, batches, strict=False):
        check_stored(batch, name)
    shapes = [tuple(batch.shape) for batch in batches]
    for shape in shapes[1:]:
        if shape[1:] != shapes[0][1:]:
            raise InputError(
                f"all frames of an update must have one shape, got positives {shapes[0][1:]} and "
                f"{shape[1:]}; use the same cameras for demonstrations, agent and failures"
            )
    return shapes


def _risk_kind(risk: str | RiskFunction) -> RiskKind:
    if not callable(risk):
        return RISKS[risk]
    known = (kind for kind in RISKS.values() if kind.function is risk)
    return next(known, RiskKind(function=risk))


def measured(result: Risk, positive_logits: Tensor, unlabeled_logits: Tensor) -> Tensor:
    """Return the metrics of one update as a vector in the order of `METRICS`."""
    shares = (positive_logits.sigmoid().mean(), unlabeled_logits.sigmoid().mean())
    return torch.stack([member.detach().float() for member in (*result, *shares)])


def checked_prior(prior: float | Tensor) -> float:
    """Return a prior as a float; raise `InputError` unless it is inside (0, 1) in float32."""
    value = prior.item() if isinstance(prior, Tensor) and prior.numel() == 1 else prior
    if not isinstance(value, Real) or not 0 < np.float32(value) < 1:
        raise InputError(f"prior must lie inside (0, 1) in float32, got {prior}; try 0.5")
    return float(value)
