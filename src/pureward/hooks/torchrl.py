# SPDX-License-Identifier: Apache-2.0
"""A learned reward in TorchRL: a transform for environments and for replay buffers."""

from pureward.errors import InputError, missing_extra
from pureward.hooks.scorer import Scorer
from pureward.online.online_reward import OnlineReward
from pureward.rewards.learned import LearnedReward

try:
    import torch
    from tensordict import NestedKey, TensorDictBase, unravel_key
    from torchrl.data import Composite, Unbounded
    from torchrl.envs import EnvBase, Transform
except ModuleNotFoundError as error:
    raise missing_extra(error) from error


class RewardTransform(Transform):
    """Replace the reward of each step by the learned reward of its arrival frame.

    In an environment, the true reward moves to `env_reward_key`, and a reward that learns observes
    the frames. In a replay buffer, sampled transitions get the reward as it is now; nothing is
    observed. Make one transform for each, with the same reward.
    """

    def __init__(
        self,
        reward: OnlineReward | LearnedReward,
        *,
        frames_key: NestedKey = "pixels",
        reward_key: NestedKey = "reward",
        env_reward_key: NestedKey = "env_reward",
        discount: float | None = None,
        learn_every: int = 0,
        updates: int = 20,
    ) -> None:
        """Store the reward.

        Args:
            reward: an `OnlineReward`, or a frozen one of `load_reward`.
            frames_key: images of the observation, (*batch, height, width, channels) or channels
                first. TorchRL's `PixelRenderTransform` adds those of an environment that renders.
            reward_key: where the learned reward goes, float32 (*batch, 1).
            env_reward_key: where the true reward goes.
            discount: γ of the RL algorithm; needed if the reward has an absorbing state.
            learn_every: steps of the environment, or of the batch of environments, between two
                calls of `reward.learn`; 0 if your loop calls it.
            updates: of D in each of them.
        """
        super().__init__()
        self._scorer = Scorer(reward, discount=discount, learn_every=learn_every, updates=updates)
        self._frames_key = unravel_key(frames_key)
        self._reward_key = unravel_key(reward_key)
        self._env_reward_key = unravel_key(env_reward_key)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the rewards of sampled transitions to their `next` entry."""
        steps = tensordict.get("steps_to_next_obs", None)
        if steps is not None and bool((steps > 1).any()):
            raise InputError(
                f"relabelled transitions must be single steps, got windows of {int(steps.max())}; "
                "sample slices of single steps, and sum their rewards after this transform"
            )
        arrived = tensordict.get("next", None)
        if arrived is None or arrived.get(self._frames_key, None) is None:
            raise InputError(
                f"transitions must have frames in ('next', {self._frames_key!r}), found none; "
                "store them in the replay buffer, or set frames_key"
            )
        terminated = arrived.get("terminated").reshape(-1)
        self._set_rewards(arrived, self._scorer(self._frames(arrived), terminated))
        return tensordict

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """Add the true reward to the observations; the learned reward is unbounded."""
        output_spec = super().transform_output_spec(output_spec)
        observations = output_spec["full_observation_spec"]
        rewards = output_spec["full_reward_spec"]
        if self._frames_key not in observations.keys(True, True):
            raise InputError(
                f"frames_key must be one of the observations, got {self._frames_key!r}; make the "
                "environment with from_pixels=True, or append a PixelRenderTransform before"
            )
        if self.parent is not None:
            _check_autoreset(self.parent)
        true = rewards[self._reward_key]
        observations[self._env_reward_key] = true.clone()
        rewards[self._reward_key] = Unbounded(
            shape=torch.Size((*output_spec.shape, 1)), dtype=torch.float32, device=true.device
        )
        return output_spec

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        frames = self._frames(next_tensordict)
        ended, terminated = (next_tensordict.get(k).reshape(-1) for k in ("done", "terminated"))
        stepped = tensordict.get("_step", None)  # not those that ended and wait for the others
        rewards = self._scorer.step(frames, ended, terminated, stepped)
        next_tensordict.set(self._env_reward_key, next_tensordict.get(self._reward_key))
        return self._set_rewards(next_tensordict, rewards)

    def _reset(
        self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase
    ) -> TensorDictBase:
        self._scorer.restart(None if tensordict is None else tensordict.get("_reset", None))
        env = self.parent
        assert env is not None
        true = env.full_reward_spec[self._reward_key].zero()
        return tensordict_reset.set(self._env_reward_key, true)

    def _check_batched_worker_compat(self) -> None:
        if self._scorer.online is not None:
            raise InputError(
                "a reward that learns must observe all environments, got a transform inside of a "
                "batched one; write TransformedEnv(ParallelEnv(…), RewardTransform(…))"
            )

    def _frames(self, arrived: TensorDictBase) -> torch.Tensor:
        images = arrived.get(self._frames_key)
        return self._scorer.frames(images.reshape(-1, *images.shape[arrived.ndim :]))

    def _set_rewards(self, arrived: TensorDictBase, rewards: torch.Tensor) -> TensorDictBase:
        rewards = rewards.to(arrived.get("terminated").device)
        return arrived.set(self._reward_key, rewards.reshape(*arrived.shape, 1))


def _check_autoreset(env: EnvBase) -> None:
    """Refuse environments whose last frame of an episode does not reach a transform."""
    base = vars(getattr(env, "base_env", env))  # attributes of a batched one are its workers'
    mode = getattr(base.get("_env"), "autoreset_mode", None)
    if vars(env).get("_torchrl_native_autoreset") or base.get("_torchrl_native_autoreset"):
        mode = "native_autoreset=True"
    elif getattr(mode, "name", None) != "SAME_STEP":
        return
    raise InputError(
        f"episodes must end in their last frame, got an environment with {mode}, for which TorchRL "
        "returns another frame; use AutoresetMode.DISABLED, or leave out native_autoreset"
    )
