# SPDX-License-Identifier: Apache-2.0
"""D_θ and its update by either branch of Algorithm 1."""

from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from pureward.errors import InputError
from pureward.reward.augment import AugmentConfig
from pureward.reward.engine import Arithmetic, distorted_logits, logits, resolved
from pureward.reward.graph import CapturedCall, adam, trained_tensors
from pureward.reward.network import NetworkConfig, seeded_network
from pureward.reward.risk import Loss, Risk, RiskFunction, nnpu
from pureward.reward.scoring import in_batches

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
    """Shape of the network and its frames."""
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    """Distortions of the frames it learns from; scoring sees frames as they are."""
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

    def __post_init__(self) -> None:
        """Refuse settings that cannot train."""
        if not 0 < self.learning_rate < 1:
            raise InputError(
                f"learning_rate must lie inside (0, 1), got {self.learning_rate}; try 1e-5"
            )
        check_prior(self.prior)


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
            risk: `pn`, `upu`, `nnpu` or another of their signature.
            device: where it lives; frames must be there too.
            seed: of the initial weights and of every later draw.
            captured: on CUDA, run updates as one CUDA graph; batch sizes are then fixed by
                the first update.
            arithmetic: "auto" for the fastest the device has; see `engine`.
        """
        self.config = config
        self.risk = risk
        self.device = torch.device(device)
        self.arithmetic: Arithmetic = resolved(arithmetic, config.network, self.device)
        self.network = seeded_network(config.network, seed, self.device)
        self.optimizer = adam(self.network.parameters(), config.learning_rate, self.device)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.prior = torch.tensor(config.prior, device=self.device)
        self.captured = captured
        self._graph: CapturedCall | None = None
        if captured and self.device.type != "cuda":
            raise InputError(f"captured updates need a CUDA device, got {device}; leave it False")

    def update(self, positive_frames: Tensor, unlabeled_frames: Tensor) -> dict[str, Tensor]:
        """Take one step on a minibatch (Algorithm 1) and return metrics, detached.

        Args:
            positive_frames: (n, channels, height, width) uint8, demonstrations or annotated.
            unlabeled_frames: (m, channels, height, width) uint8, the agent's.
        """
        if not self.captured:
            return named(self._step(positive_frames, unlabeled_frames))
        if self._graph is None:
            self._graph = CapturedCall(
                self._step,
                (positive_frames, unlabeled_frames),
                kept=trained_tensors(self.optimizer),
                generators=[self.generator],
            )
        return named(self._graph(positive_frames, unlabeled_frames))

    def set_prior(self, prior: float) -> None:
        """Change η in place, which a captured update sees."""
        check_prior(prior)
        self.prior.fill_(prior)

    @torch.no_grad()
    def logits(self, frames: Tensor, batch_size: int = 1024) -> Tensor:
        """Return success logits (batch,) of frames as they are, without dropout."""
        self.network.eval()
        score = partial(logits, self.network, arithmetic=self.arithmetic)
        return in_batches(score, frames, batch_size, self.device)

    def _step(self, positive_frames: Tensor, unlabeled_frames: Tensor) -> Tensor:
        positive_logits, unlabeled_logits = self._training_logits(positive_frames, unlabeled_frames)
        result = self.risk(
            positive_logits,
            unlabeled_logits,
            prior=self.prior,
            slack=self.config.slack,
            step_back=self.config.step_back,
            loss=self.config.loss,
        )
        self.optimizer.zero_grad(set_to_none=True)
        result.objective.backward()
        self.optimizer.step()
        return measured(result, positive_logits, unlabeled_logits)

    def _training_logits(self, positive: Tensor, unlabeled: Tensor) -> tuple[Tensor, Tensor]:
        # One pass over both sets: no batch statistics couple the samples, and one large
        # batch fills the device better than two.
        self.network.train()
        both = distorted_logits(
            self.network,
            torch.cat([positive, unlabeled]),
            self.config.augment,
            self.generator,
            self.arithmetic,
        )
        return both[: len(positive)], both[len(positive) :]


def measured(result: Risk, positive_logits: Tensor, unlabeled_logits: Tensor) -> Tensor:
    """Return the metrics of one update as one vector in the order of `METRICS`."""
    shares = (positive_logits.sigmoid().mean(), unlabeled_logits.sigmoid().mean())
    return torch.stack([member.detach().float() for member in (*result, *shares)])


def named(vector: Tensor) -> dict[str, Tensor]:
    """Return the metrics of one update by name; nothing is read back to the host."""
    return dict(zip(METRICS, vector.unbind(), strict=True))


def check_prior(prior: float) -> None:
    """Refuse a prior outside (0, 1)."""
    if not 0 < prior < 1:
        raise InputError(
            f"prior must lie inside (0, 1), got {prior}; see DiscriminatorConfig.prior"
        )
