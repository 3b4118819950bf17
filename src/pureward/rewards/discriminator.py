# SPDX-License-Identifier: Apache-2.0
"""D_θ and its update by either branch of Algorithm 1."""

from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pureward.capture import CapturedCall
from pureward.errors import InputError, check_seed
from pureward.rewards.arithmetic import Arithmetic, logits, random_logits, resolved, usable_device
from pureward.rewards.config import RewardConfig
from pureward.rewards.network import check_stored, seeded_network
from pureward.rewards.optimizer import adam, trained_tensors
from pureward.rewards.risks import RISKS, Risk, RiskFunction, RiskKind
from pureward.rewards.scoring import in_batches

METRICS = (
    "risk/value",
    "risk/objective",
    "risk/positive",
    "risk/negative",
    "risk/violated",
    "success/positive",
    "success/unlabeled",
)


class Discriminator:
    """Tells successes (1) from failures (0) by frames; trained on positives and unlabeled."""

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
        """Build network, optimiser and random generator.

        Args:
            config: network and learning settings.
            risk: a name in `RISKS`, or a function with the signature of `nnpu`; "" is the
                configuration's, or else "nnpu".
            prior: η, the share of successes expected among the agent's frames.
            device: where it lives; frames must be there too.
            seed: of the initial weights and of every later draw.
            captured: on CUDA, run updates as one CUDA graph; batch sizes are then fixed by
                the first update.
            arithmetic: "auto" for the fastest the device has; see `arithmetic`.
        """
        check_seed(seed)
        self.config = config
        self.risk = risk_kind(risk or config.risk or "nnpu")
        self.device = usable_device(device)
        self.arithmetic: Arithmetic = resolved(arithmetic, config.network, self.device)
        self.network = seeded_network(config.network, seed, self.device)
        self.optimizer = adam(self.network.parameters(), config.learning_rate, self.device)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.prior = torch.tensor(checked_prior(prior), device=self.device)
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
            failure_frames: (k, channels, height, width) uint8, of known failures, for risks that
                take them.
        """
        if (failure_frames is not None) != self.risk.takes_failures:
            raise InputError(
                f"known failures go with a risk that takes them, such as nnpnu, got "
                f"{_name(self.risk)} {'with' if failure_frames is not None else 'without'} them; "
                "change either"
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
            "loss": self.config.loss,
            "even": self.config.even,
        }
        logits = self._training_logits(frames)
        self.optimizer.zero_grad(set_to_none=True)
        if self._risk_is_fused(len(frames)):
            from pureward.kernels.rewards.risk import differentiated

            risk = self.risk.function
            metrics, gradient = differentiated(risk, logits.detach(), counts[0], **settings)
            logits.backward(gradient)
        else:
            positive, unlabeled, *failures = logits.split(counts)
            if failures:
                settings["failure_logits"] = failures[0]
            result = self.risk.function(positive, unlabeled, **settings)
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

        return supports(self.risk.function, samples)


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


def risk_kind(risk: str | RiskFunction) -> RiskKind:
    """Return a risk by name, or by its function, registered or not."""
    if isinstance(risk, str):
        return RISKS[risk]
    known = (kind for kind in RISKS.values() if kind.function is risk)
    return next(known, RiskKind(function=risk))


def _name(risk: RiskKind) -> str:
    return getattr(risk.function, "__name__", repr(risk.function))


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
        raise InputError(f"prior must lie inside (0, 1), got {prior}; try 0.5")
    return float(value)
