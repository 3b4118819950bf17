# SPDX-License-Identifier: Apache-2.0
"""A reward that keeps learning while any RL library trains on it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pureward.data.arrays import check_list
from pureward.data.dataset import Dataset, check_apart, in_memory, read_episodes, with_ends
from pureward.data.episodes import check_rated
from pureward.diagnostics.verdict import Verdict, find_verdict
from pureward.errors import InputError, check_seed, warn
from pureward.online.learner import RewardLearner
from pureward.online.observed import ObservedFrames
from pureward.online.supervision import Supervision
from pureward.pixels import SIDE, batch_of, to_frames
from pureward.purl import enough
from pureward.rewards.config import RewardConfig, RewardModelConfig, check_reward_config
from pureward.rewards.learned import LearnedReward
from pureward.rewards.methods import METHODS, default_method
from pureward.rewards.network import NetworkConfig
from pureward.rewards.view import View
from pureward.runs.checkpoint import flattened, under
from pureward.settings import as_path
from pureward.types import find_device

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pureward.data.dataset import Source

#: Settings for thousands of updates on a CPU; Table 3's are for millions on a GPU.
SMALL = RewardConfig(
    learning_rate=3e-4,
    batch=64,
    even=True,
    memory=20_000,
    network=NetworkConfig(
        stage_channels=(8, 16, 32), stage_blocks=0, view=View(crop=1.0, shift=0.1, flip=False)
    ),
    model=RewardModelConfig(learning_rate=1e-3, batch_size=64, epochs=10),
)
#: η of a PU method unless given: estimated, from nearly none up.
DEFAULT_PRIOR = "bbe:0.002:0.8"
#: η of gated rewards, above ½: on frames that D cannot tell from annotated ones, the risk is lowest
#: at D = η, and the gate should be open there.
GATED_PRIOR = "0.7"
_FIRST_ESTIMATE = 1000  # frames of the agent before η is estimated


def default_prior(method: str) -> str | None:
    """Return η of a PU method, or how it is found, unless given; None for other methods."""
    row = METHODS[method]
    if not row.takes_prior:
        return None
    return GATED_PRIOR if row.reward == "gated" else DEFAULT_PRIOR


class OnlineReward:
    """D, r_φ and η of a method, learned from frames that are observed as they come.

    `observe` the frames of arrival states, `learn` now and then, and call the object for rewards.
    `train` builds the same networks, updates and estimates (`RewardLearner`).
    """

    def __init__(
        self,
        demonstrations: "Source | None" = None,
        *,
        annotations: "Source | None" = None,
        failures: "Source | None" = None,
        method: str = "",
        prior: str | float | None = None,
        config: RewardConfig = SMALL,
        stack: int = 1,
        horizon: int | None = None,
        capacity: int = 20_000,
        held_out: float = 0.2,
        device: str | torch.device = "auto",
        seed: int = 0,
    ) -> None:
        """Read the data and build the networks.

        Args:
            demonstrations: for imitation: anything that `read_episodes` takes.
            annotations: for `prl`, `pnrl`, `purl` and `nn-purl`: the same, with rewards.
            failures: known failures, for the risk `nnpnu`.
            method: a name in `pureward.METHODS`; "" for nn-pugail, or nn-purl with annotations.
            prior: η, or how it is found; None estimates it for imitation ("bbe:0.002:0.8") and
                is 0.7 for gated rewards.
            config: settings of the reward; the default is for thousands of updates on a CPU.
            stack: images that a frame consists of, as channels, oldest first. Data is stacked
                here; `observe` and calls take frames that are stacked already.
            horizon: the environment's time limit, if episodes may terminate before it. Then a
                terminal state is followed by an absorbing one, and `terminal_reward` is to be
                added to the reward of a step that terminates. Demonstrations given as arrays,
                images or videos terminate if they are shorter.
            capacity: number of the agent's frames that are kept.
            held_out: share of the episodes held out for estimates and probes, if the data has no
                splits of its own.
            device: "auto" (CUDA if available), "cpu" or "cuda".
            seed: of weights and sampling.
        """
        given = {"demonstrations": demonstrations, "annotations": annotations}
        is_given = {name: source is not None for name, source in given.items()}
        method = method or default_method(is_given, "nn-pugail")
        row = METHODS[method]
        if row.reward == "truth":
            raise InputError("method must be a learned one, got 'truth'; try nn-pugail")
        for name, source in given.items():
            check_list(name, source)
        for name, found in is_given.items():
            if found != (row.positives == name):
                verb = "takes no" if found else "needs"
                raise InputError(f"{method} {verb} {name}; give {row.positives} alone")
        for name, count in {"horizon": horizon, "capacity": capacity}.items():
            if count is not None and (not isinstance(count, Integral) or count < 1):
                raise InputError(f"{name} must be a whole number above 0, got {count!r}; try 1000")
        check_reward_config(config)
        seed = check_seed(seed)
        self.method, self.device = method, find_device(device)
        positives = demonstrations if annotations is None else annotations
        episodes = _episodes(positives, held_out, horizon=horizon)
        if annotations is not None:
            check_rated(episodes, "annotations")
        data = Supervision.of(episodes, stack=stack, device=self.device, images=episodes.images)
        self.frames = ObservedFrames(capacity, data.train.shape, self.device)
        absorbing = None
        if horizon is not None and config.absorbing:
            absorbing = data.absorbing(horizon, recent=capacity)
        known = None
        if failures is not None:
            others = _episodes(failures, 0.0, size=data.train.shape[1:])
            check_apart(others, episodes)
            known = data.known_failures(others)
        self.learner = RewardLearner(
            replace(config, memory=min(config.memory, 5 * capacity)),
            data,
            self.frames,
            method=method,
            prior=default_prior(method) if prior is None else prior,
            failures=known,
            absorbing=absorbing,
            warmup_steps=_FIRST_ESTIMATE,
            seed=seed,
        )
        self._generator = torch.Generator(self.device).manual_seed(seed)
        self._rows: list[dict[str, Any]] = []
        self._paid = torch.zeros(2, dtype=torch.float64, device=self.device)  # sum, count
        self._fitted = self.learner.model is None
        self._warned = False
        self.updates = 0
        """Updates of D so far."""

    @torch.inference_mode(False)  # tensors made in that mode could not be changed outside it
    def observe(
        self,
        frames: "NDArray[np.generic] | Tensor",
        ended: "NDArray[np.generic] | Tensor | Sequence[bool] | bool",
        terminated: "NDArray[np.generic] | Tensor | Sequence[bool] | bool | None" = None,
        stepped: "NDArray[np.generic] | Tensor | Sequence[bool] | None" = None,
    ) -> None:
        """Add the agent's newest frames, one per world, to the unlabeled data.

        If the number of worlds changes, all of them begin new episodes.

        Args:
            frames: of arrival states, (worlds, height, width, channels) or channels first; the
                last frame of an episode is the one before the reset.
            ended: whether the frame is the last of its episode, (worlds,).
            terminated: whether that is because the state is terminal; needed with `horizon`.
            stepped: which worlds took a step, (worlds,); the others were only reset, and their
                frames are left out. None if all did.
        """
        seen = frames_of(frames, self.learner.learned)
        over = self._flags(ended, len(seen), "ended")
        moved = None if stepped is None else self._flags(stepped, len(seen), "stepped")
        absorbing = self.learner.absorbing
        if absorbing is not None and terminated is None:
            raise InputError(
                "with a horizon, `observe` needs `terminated`, got None; pass the environment's "
                "flags, or leave out horizon"
            )
        if moved is not None and not bool(moved.any()):
            return
        if absorbing is not None:
            absorbing.arrive(self._flags(terminated, len(seen), "terminated"), over, moved)
        steps = self.frames.add(seen, over, moved)
        if self.learner.adversary is not None:
            self.learner.adversary.remember(self.frames, steps, self._generator)

    @torch.inference_mode(False)
    def restart(self, worlds: "NDArray[np.generic] | Tensor | Sequence[bool]") -> None:
        """Begin new episodes in worlds that were reset before an end was observed.

        Args:
            worlds: those worlds, bool (worlds,).
        """
        cut = self._flags(worlds, None, "worlds")
        self.frames.restart(cut)
        if self.learner.absorbing is not None:
            none = torch.zeros_like(cut)
            self.learner.absorbing.arrive(none, cut, none)

    @torch.inference_mode(False)  # RL libraries call this without gradients
    def learn(self, updates: int = 20) -> dict[str, float]:
        """Update D and η; the first call fits the reward model, if the method has one.

        Args:
            updates: of D, on a minibatch each.

        Returns:
            Means of the metrics; {}, with one warning, before there are enough observed frames for
            a minibatch.
        """
        if not isinstance(updates, Integral):
            raise InputError(f"updates must be a whole number, got {updates!r}; try 20")
        self._fit()
        adversary = self.learner.adversary
        if updates < 1 or adversary is None:
            return {}
        if not self.learner.can_update:
            if not self._warned:
                needed = enough(self.frames, adversary.batch)
                warn(
                    f"D learns from at least {needed} observed frames, and there are "
                    f"{len(self.frames)}, so nothing was updated; call observe first"
                )
            self._warned = True
            return {}
        metrics = self.learner.update_prior()
        metrics |= self.learner.update(self.frames, self._generator, updates)
        self.updates += updates
        paid, count = self._paid.tolist()
        self._paid.zero_()
        self._write("train", metrics | ({"reward/mean": paid / count} if count else {}))
        return metrics

    @torch.no_grad()
    def __call__(self, frames: "NDArray[np.generic] | Tensor") -> Tensor:
        """Return the rewards of frames, float32 (batch,), on the device.

        Args:
            frames: (batch, height, width, channels) or channels first, of any size; or a list of
                images.
        """
        self._fit()
        rewards = self.learner.learned(frames_of(frames, self.learner.learned))
        self._paid += torch.stack([rewards.double().sum(), rewards.new_tensor(len(rewards))])
        return rewards

    def terminal_reward(self, discount: float) -> float:
        """Return what a step that terminates is paid for the absorbing state after it.

        See `LearnedReward.terminal_reward`.

        Args:
            discount: γ of the RL library, below 1.
        """
        return self.learner.learned.terminal_reward(discount)

    def probe(self) -> dict[str, float]:
        """Measure D and r_φ on trained, held-out and failed episodes and on the agent's frames."""
        self._fit()
        values = self.learner.probe()
        self._write("probe", values)
        return values

    def verdict(self) -> Verdict:
        """Probe the reward and say in words whether it is healthy.

        It is undecided before D has learned and frames of the agent were observed.
        """
        self.probe()
        found = find_verdict(self._rows, self.method, updates=self.updates)
        seen = len(self.frames)
        if self.learner.adversary is None or (self.updates and seen):
            return found
        sentence = (
            f"D has made {self.updates:,} updates, and {seen:,} frames of the agent were observed; "
            "call observe for every step of the agent, and learn now and then"
        )
        return replace(found, name="undecided", sentence=sentence)

    def save(self, path: str | Path) -> None:
        """Write the reward as it is now, for `load_reward`; warn if its D has not learned."""
        folder = as_path("path", path)  # refused before the fit
        self._fit()
        self.learner.save(folder)
        if self.learner.adversary is not None and not self.updates:
            warn(f"{folder} holds a reward whose D has made no update; call learn, and save again")

    def state_dict(self) -> dict[str, Tensor]:
        """Return networks, optimizer, η and random states; observed frames are not in it."""
        return {
            **flattened("learner", self.learner.tensors()),
            "generator": self._generator.get_state(),
            "updates": torch.tensor(self.updates),
            "fitted": torch.tensor(self._fitted),
        }

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Continue from a `state_dict` of a reward with the same data and settings."""
        is_state = isinstance(saved, Mapping) and all(isinstance(v, Tensor) for v in saved.values())
        if not is_state:
            raise InputError(
                "a state must be the tensors that state_dict returned, got "
                f"{type(saved).__name__}; load them with torch.load first"
            )
        wanted, given = _shapes(self.state_dict()), _shapes(saved)
        wrong = [name for name in wanted | given if wanted.get(name) != given.get(name)]
        if wrong:
            raise InputError(
                f"a state must be that of a reward with the same data and settings, and "
                f"{wrong[0]} differs; build the reward as the saved one was built"
            )
        self.learner.load_tensors(under("learner", saved))
        self._generator.set_state(saved["generator"].cpu())
        self.updates, self._fitted = int(saved["updates"]), bool(saved["fitted"])

    @torch.inference_mode(False)
    def _fit(self) -> None:
        if not self._fitted:
            self.learner.fit()
            self._fitted = True

    def _write(self, kind: str, values: dict[str, float]) -> None:
        self._rows.append({"kind": kind, "step": self.frames.observed, **values})

    def _flags(self, values: Any, worlds: int | None, name: str) -> Tensor:
        try:
            flags = torch.as_tensor(values, device=self.device).bool().reshape(-1)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"{name} must be True or False for each world, got {values!r:.40}; pass "
                "a list of them"
            ) from error
        if worlds is not None and len(flags) != worlds:
            raise InputError(
                f"{name} must have one flag per frame, {worlds}, got {len(flags)}; pass those of "
                "all worlds"
            )
        return flags


def frames_of(images: Any, reward: LearnedReward) -> Tensor:
    """Return images as the frames of a reward, uint8 (batch, channels, height, width).

    Args:
        images: a batch of images as arrays or tensors of any layout and size that `to_frames`
            takes, or a sequence of images.
        reward: whose frames they are to be; refuses images that are stacked otherwise.
    """
    spec = reward.spec
    frames = to_frames(batch_of(images), reward.device, (spec.network.height, spec.network.width))
    if frames.shape[1] != spec.network.frame_channels:
        raise InputError(
            f"frames must have {spec.network.frame_channels} channels like those of the reward, "
            f"{spec.channels}, got {frames.shape[1]}; stack images alike, or train the reward on "
            "single ones (--replay.frame-stack 1)"
        )
    return frames


def _shapes(state: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """Shapes by name, except of what has one number a world, and none before the first step."""
    return {name: value.shape for name, value in state.items() if not name.endswith("/age")}


def _episodes(
    source: Any,
    held_out: float,
    *,
    size: tuple[int, int] = (SIDE, SIDE),
    horizon: int | None = None,
) -> Dataset:
    """A source in memory; if it states no ends, episodes shorter than a horizon terminate."""
    dataset = read_episodes(source, size=size, held_out=held_out)
    episodes = [in_memory(episode) for episode in dataset]
    if any(episode.frames is None for episode in episodes):
        raise InputError(f"{source} must store frames; collect it with `--frames`")
    dataset = replace(dataset, episodes=episodes)
    return dataset if horizon is None else with_ends(dataset, horizon)
