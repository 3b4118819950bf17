# SPDX-License-Identifier: Apache-2.0
"""D_θ and its update by either branch of Algorithm 1."""

from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pureward.capture import CapturedCall
from pureward.errors import InputError, check_seed
from pureward.rewards.arithmetic import Arithmetic, logits, random_logits, resolved, usable_device
from pureward.rewards.network import NetworkConfig, check_stored, seeded_network
from pureward.rewards.optimizer import adam, trained_tensors
from pureward.rewards.risks.failures import nnpnu
from pureward.rewards.risks.pu import Loss, Risk, RiskFunction, check_loss, nnpu
from pureward.rewards.risks.variational import mixed_frames, vpu
from pureward.rewards.scoring import in_batches

#: Risks on a third batch of frames beside positives and unlabeled, and what they call its logits.
THIRD_BATCH: dict[RiskFunction, str] = {nnpnu: "failure_logits", vpu: "mixed_logits"}

METRICS = (
    "risk/value",
    "risk/objective",
    "risk/positive",
    "risk/negative",
    "risk/violated",
    "success/positive",
    "success/unlabeled",
)


@dataclass(frozen=True, kw_only=True)
class DiscriminatorConfig:
    """How a discriminator looks and learns."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Shape of the network, its frames and how it looks at them."""
    learning_rate: float = 1e-5
    """Step size of Adam (Table 3)."""
    prior: float = 0.5
    """η, the share of successes expected among the agent's frames."""
    slack: float = 0.0
    """β, how far below zero a minibatch may bring the negative risk."""
    step_back: float = 1.0
    """γ, the weight of the ascent when it falls lower still."""
    loss: Loss = "logistic"
    """"logistic" as in the paper, or the bounded "sigmoid"."""
    even: bool = False
    """Whether successes and failures count alike in the risk, whatever η."""
    failure_weight: float = 0.2
    """ρ, how much of the failure part known failures make up, where there are any."""
    mixup_weight: float = 0.03
    """λ, the weight of the mixed frames in the variational risk."""

    def __post_init__(self) -> None:
        """Refuse settings that cannot train."""
        if not 0 < self.learning_rate < 1:
            raise InputError(
                f"learning_rate must lie inside (0, 1), got {self.learning_rate}; try 1e-5"
            )
        checked_prior(self.prior)
        check_loss(self.loss)
        if not 0 <= self.slack < float("inf"):
            raise InputError(f"slack must be finite and at least 0, got {self.slack}; try 0")
        if not 0 < self.step_back <= 1:
            raise InputError(f"step_back must lie in (0, 1], got {self.step_back}; try 1")


class Discriminator:
    """Tells successes (1) from failures (0) by frames; trained on positives and unlabeled."""

    def __init__(
        self,
        config: DiscriminatorConfig,
        *,
        risk: RiskFunction = nnpu,
        device: torch.device | str = "cpu",
        seed: int = 0,
        captured: bool = False,
        arithmetic: Arithmetic = "auto",
    ) -> None:
        """Build network, optimiser and random generator.

        Args:
            config: shape and learning settings.
            risk: `pn`, `upu`, `nnpu`, `nnpnu`, `vpu` or another of their signature.
            device: where it lives; frames must be there too.
            seed: of the initial weights and of every later draw.
            captured: on CUDA, run updates as one CUDA graph; batch sizes are then fixed by
                the first update.
            arithmetic: "auto" for the fastest the device has; see `engine`.
        """
        check_seed(seed)
        self.config = config
        self.risk = risk
        self.device = usable_device(device)
        self.arithmetic: Arithmetic = resolved(arithmetic, config.network, self.device)
        self.network = seeded_network(config.network, seed, self.device)
        self.optimizer = adam(self.network.parameters(), config.learning_rate, self.device)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.prior = torch.tensor(checked_prior(config.prior), device=self.device)
        self.captured = captured
        self._capture: _Capture | None = None
        if captured and self.device.type != "cuda":
            raise InputError(f"captured updates need a CUDA device, got {device}; leave it False")

    def update(
        self,
        positive_frames: Tensor,
        unlabeled_frames: Tensor,
        failure_frames: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Take one step on a minibatch (Algorithm 1) and return metrics, detached.

        Args:
            positive_frames: (n, channels, height, width) uint8, demonstrations or annotated.
            unlabeled_frames: (m, channels, height, width) uint8, the agent's.
            failure_frames: (k, channels, height, width) uint8, of known failures, for `nnpnu`.
        """
        if (failure_frames is not None) != (self.risk is nnpnu):
            raise InputError(
                f"known failures go with the risk nnpnu and only with it, got {_name(self.risk)} "
                f"{'with' if failure_frames is not None else 'without'} them; change either"
            )
        batches = [positive_frames, unlabeled_frames]
        if failure_frames is not None:
            batches.append(failure_frames)
        shapes = _checked_shapes(batches)
        if not self.captured:
            return named(self._step(torch.cat(batches), [len(batch) for batch in batches]))
        if self._capture is None:
            self._capture = self._captured_step(batches, shapes)
        elif self._capture.shapes != shapes:
            raise InputError(
                f"a captured update takes what it began with, {_told(self._capture.shapes)}, got "
                f"{_told(shapes)}; keep batch sizes fixed or pass captured=False"
            )
        torch.cat(batches, out=self._capture.frames)
        return named(self._capture.step())

    def set_prior(self, prior: float | Tensor) -> None:
        """Change η in place, which a captured update sees."""
        self.prior.fill_(checked_prior(prior))

    @torch.no_grad()
    def logits(self, frames: Tensor, batch_size: int = 1024) -> Tensor:
        """Return success logits (batch,) of frames as they are scored, without dropout."""
        self.network.eval()
        score = partial(logits, self.network, arithmetic=self.arithmetic)
        return in_batches(score, frames, batch_size, self.device)

    def _captured_step(self, batches: list[Tensor], shapes: "_Shapes") -> "_Capture":
        frames = torch.cat(batches)
        step = CapturedCall(
            partial(self._step, frames, [len(batch) for batch in batches]),
            (),
            kept=trained_tensors(self.optimizer),
            generators=[self.generator],
        )
        return _Capture(step, frames, shapes)

    def _step(self, frames: Tensor, counts: list[int]) -> Tensor:
        """Update on frames, so many positives first, then unlabeled, then known failures."""
        settings: dict[str, Any] = {
            "prior": self.prior,
            "slack": self.config.slack,
            "step_back": self.config.step_back,
            "loss": self.config.loss,
            "even": self.config.even,
        }
        if self.risk is nnpnu:
            settings["failure_weight"] = self.config.failure_weight
        if self.risk is vpu:
            mixed = mixed_frames(*frames.split(counts), generator=self.generator)
            frames, counts = torch.cat([frames, mixed.frames]), [*counts, len(mixed.frames)]
            settings |= {"mixed_shares": mixed.shares, "mixup_weight": self.config.mixup_weight}
        logits = self._training_logits(frames)
        self.optimizer.zero_grad(set_to_none=True)
        if self._risk_is_fused(len(frames)):
            from pureward.kernels.rewards.risk import differentiated

            metrics, gradient = differentiated(self.risk, logits.detach(), counts[0], **settings)
            logits.backward(gradient)
        else:
            positive, unlabeled, *third = logits.split(counts)
            if third:
                settings[THIRD_BATCH[self.risk]] = third[0]
            result = self.risk(positive, unlabeled, **settings)
            result.objective.backward()
            metrics = measured(result, positive, unlabeled)
        self.optimizer.step()
        return metrics

    def _training_logits(self, frames: Tensor) -> Tensor:
        # One pass over both sets: no batch statistics couple the samples, and one large
        # batch fills the device better than two.
        self.network.train()
        return random_logits(self.network, frames, self.generator, self.arithmetic)

    def _risk_is_fused(self, samples: int) -> bool:
        if self.arithmetic != "fused":
            return False
        from pureward.kernels.rewards.risk import supports

        return supports(self.risk, samples)


_Shapes = tuple[torch.Size, ...]


class _Capture(NamedTuple):
    """An update as a CUDA graph, and the place it reads its frames from."""

    step: CapturedCall
    frames: Tensor
    shapes: _Shapes


def _checked_shapes(batches: list[Tensor]) -> _Shapes:
    """Shapes of an update's batches, which must be stored frames of the same cameras."""
    names = ("positive_frames", "unlabeled_frames", "failure_frames")
    for name, batch in zip(names, batches, strict=False):
        check_stored(batch, name)
    shapes = tuple(batch.shape for batch in batches)
    for shape in shapes[1:]:
        if shape[1:] != shapes[0][1:]:
            raise InputError(
                f"all frames of an update must be of one shape, got positives "
                f"{tuple(shapes[0][1:])} beside {tuple(shape[1:])}; use the same cameras for "
                "demonstrations, agent and failures"
            )
    return shapes


def _told(shapes: _Shapes) -> str:
    return " and ".join(str(tuple(shape)) for shape in shapes)


def _name(risk: RiskFunction) -> str:
    return getattr(risk, "__name__", repr(risk))


def measured(result: Risk, positive_logits: Tensor, unlabeled_logits: Tensor) -> Tensor:
    """Return the metrics of one update as one vector in the order of `METRICS`."""
    shares = (positive_logits.sigmoid().mean(), unlabeled_logits.sigmoid().mean())
    return torch.stack([member.detach().float() for member in (*result, *shares)])


def named(vector: Tensor) -> dict[str, Tensor]:
    """Return the metrics of one update by name; nothing is read back to the host."""
    return dict(zip(METRICS, vector.unbind(), strict=True))


def checked_prior(prior: float | Tensor) -> float:
    """Return a prior, one number inside (0, 1)."""
    value = prior.item() if isinstance(prior, Tensor) and prior.numel() == 1 else prior
    if not isinstance(value, Real) or not 0 < value < 1:
        raise InputError(
            f"prior must lie inside (0, 1), got {prior}; see DiscriminatorConfig.prior"
        )
    return float(value)
