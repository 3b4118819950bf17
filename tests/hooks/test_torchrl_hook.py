# SPDX-License-Identifier: Apache-2.0
"""Learned rewards in TorchRL's environments and replay buffers."""

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from line_env import CELLS, LENGTH, LineEnv, image, online

from pureward import load_reward
from pureward.errors import InputError

pytest.importorskip("torchrl", reason="TorchRL is not installed")

from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, MultiStep, TensorDictReplayBuffer
from torchrl.envs import (
    Compose,
    GymWrapper,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    check_env_specs,
)
from torchrl.modules import EGreedyModule, QValueModule
from torchrl.objectives import DQNLoss, SoftUpdate
from torchrl.record import PixelRenderTransform

from pureward.hooks.torchrl import RewardTransform

RIGHT = torch.tensor([0, 1])


def right(tensordict):
    return tensordict.set("action", RIGHT.expand(*tensordict.batch_size, 2))


def by_hand(reward, places) -> torch.Tensor:
    flat = [image(int(place)) for place in places.reshape(-1)]
    return reward(np.stack(flat)).reshape(places.shape)


def test_a_step_is_paid_by_its_arrival_frame_and_keeps_the_true_reward():
    reward = online()
    env = TransformedEnv(GymWrapper(LineEnv()), RewardTransform(reward))
    check_env_specs(env)
    before = reward.frames.observed
    steps = env.rollout(LENGTH, right)
    places = torch.arange(1, LENGTH + 1).clamp(max=CELLS - 1)
    torch.testing.assert_close(steps["next", "reward"][:, 0], by_hand(reward, places))
    assert torch.equal(steps["next", "env_reward"][:, 0], (places == CELLS - 1).float())
    assert steps["env_reward"][0] == 0.0
    assert reward.frames.observed == before + LENGTH
    seen = reward.frames.arrival_frames(torch.tensor([before + 2]))  # the third step
    assert seen[0, 0, 0].float().argmax() == 3 * 4


def batched(kind):
    makers = [lambda n=n: LineEnv(length=n) for n in (3, 4)]
    if kind == "serial":
        return SerialEnv(2, [lambda m=m: GymWrapper(m()) for m in makers])
    return GymWrapper(SyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED))


@pytest.mark.parametrize("kind", ["serial", "vector"])
def test_the_last_frame_of_an_episode_in_a_batch_is_the_one_before_the_reset(kind):
    reward = online(horizon=LENGTH)
    env = TransformedEnv(batched(kind), RewardTransform(reward, discount=0.9))
    check_env_specs(env)
    before = reward.frames.observed
    steps = env.rollout(8, right, break_when_any_done=False)
    places = torch.tensor([[1, 2, 3, 1, 2, 3, 1, 2], [1, 2, 3, 4, 1, 2, 3, 4]])
    torch.testing.assert_close(steps["next", "reward"][..., 0], by_hand(reward, places))
    assert reward.frames.observed == before + 16


def test_worlds_that_wait_for_others_are_not_observed():
    reward = online()
    env = TransformedEnv(batched("serial"), RewardTransform(reward))
    env.rollout(8, right, break_when_any_done=False, break_when_all_done=True)
    assert reward.frames.observed == 3 + 4


def test_an_end_that_only_a_later_transform_sets_begins_another_episode():
    """By hand: world 0 ends after 2, 4 and 6 steps, world 1 too; 4 episodes each by then."""
    reward = online()
    makers = [lambda: GymWrapper(LineEnv())] * 2
    limit = Compose(RewardTransform(reward), StepCounter(max_steps=2))
    TransformedEnv(SerialEnv(2, makers), limit).rollout(7, right, break_when_any_done=False)
    assert len(reward.frames.episodes(torch.arange(len(reward.frames))).unique()) == 8
    assert reward.frames.observed == 14


def test_a_terminal_step_is_paid_for_the_absorbing_state():
    reward = online(horizon=LENGTH)
    env = TransformedEnv(GymWrapper(LineEnv(ends=2)), RewardTransform(reward, discount=0.9))
    paid = env.rollout(5, right)["next", "reward"][:, 0]
    expected = by_hand(reward, torch.tensor([1, 2]))
    expected[1] += reward.terminal_reward(0.9)
    assert reward.terminal_reward(0.9) != 0.0
    torch.testing.assert_close(paid, expected)


def test_sampled_transitions_have_the_reward_of_now(tmp_path):
    reward = online()
    env = TransformedEnv(GymWrapper(LineEnv()), RewardTransform(reward, learn_every=4, updates=2))
    replay = TensorDictReplayBuffer(
        storage=LazyTensorStorage(100), transform=RewardTransform(reward), batch_size=32
    )
    stored = env.rollout(LENGTH, right)
    replay.extend(stored)
    env.rollout(LENGTH, right)
    assert reward.updates > 0
    sample, observed = replay.sample(), reward.frames.observed
    places = sample["next", "place"].argmax(-1)
    torch.testing.assert_close(sample["next", "reward"][:, 0], by_hand(reward, places))
    first = stored["next", "reward"][sample["index"].reshape(-1).clamp(max=LENGTH - 1)]
    assert not torch.equal(sample["next", "reward"], first)
    assert torch.equal(sample["next", "env_reward"][:, 0], (places == CELLS - 1).float())
    replay.sample()
    assert reward.frames.observed == observed, "replayed frames were observed once, in the env"

    reward.save(tmp_path)
    frozen = RewardTransform(load_reward(tmp_path, device="cpu"))
    relabelled = frozen(sample.clone())
    torch.testing.assert_close(relabelled["next", "reward"], sample["next", "reward"])


def test_rendered_frames_come_from_torchrl():
    reward = online()
    env = GymWrapper(LineEnv())
    env = TransformedEnv(env, PixelRenderTransform(out_keys=["drawn"], preproc=np.copy))
    env.append_transform(RewardTransform(reward, frames_key="drawn"))
    check_env_specs(env)
    paid = env.rollout(3, right)["next", "reward"][:, 0]
    torch.testing.assert_close(paid, by_hand(reward, torch.tensor([1, 2, 3])))


def test_bad_input_is_one_sentence():
    reward = online()
    with pytest.raises(InputError, match="OnlineReward"):
        RewardTransform(lambda frames: frames)
    with pytest.raises(InputError, match="frames_key"):
        env = TransformedEnv(GymWrapper(LineEnv()), RewardTransform(reward, frames_key="camera"))
        env.rollout(2)
    with pytest.raises(InputError, match="SAME_STEP"):
        vector = SyncVectorEnv([LineEnv] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
        GymWrapper(vector).append_transform(RewardTransform(reward)).rollout(2)
    with pytest.raises(InputError, match="all environments"):
        SerialEnv(2, lambda: TransformedEnv(GymWrapper(LineEnv()), RewardTransform(reward)))
    steps = TransformedEnv(GymWrapper(LineEnv()), RewardTransform(reward)).rollout(6)
    relabel = RewardTransform(reward)
    with pytest.raises(InputError, match="single steps"):
        relabel(MultiStep(gamma=0.9, n_steps=3)(steps[None]))
    with pytest.raises(InputError, match="'next', 'pixels'"):
        relabel(steps.exclude(("next", "pixels")))


def test_a_policy_learns_from_a_reward_that_learns():
    """DQN with a relabelled replay walks to the demonstrated cell; random play stays left."""
    torch.manual_seed(0)
    reward = online()
    batch = SerialEnv(4, lambda: GymWrapper(LineEnv()))
    env = TransformedEnv(batch, RewardTransform(reward, learn_every=6, updates=2))
    env.set_seed(0)
    network = torch.nn.Linear(CELLS, 2)
    values = TensorDictModule(network, in_keys=["place"], out_keys=["action_value"])
    greedy = TensorDictSequential(values, QValueModule(spec=env.action_spec_unbatched))
    explore = EGreedyModule(env.action_spec, annealing_num_steps=1000, eps_end=0.1)
    loss_of = DQNLoss(greedy, action_space="one-hot", delay_value=True)
    loss_of.make_value_estimator(gamma=0.9)
    target = SoftUpdate(loss_of, tau=0.05)
    optimizer = torch.optim.Adam(loss_of.parameters(), lr=0.03)
    replay = TensorDictReplayBuffer(
        storage=LazyTensorStorage(4000), transform=RewardTransform(reward), batch_size=64
    )
    returns = []
    collector = Collector(
        env,
        TensorDictSequential(greedy, explore),
        frames_per_batch=48,
        total_frames=1344,
        auto_register_policy_transforms=False,
    )
    for steps in collector:
        returns.append(float(steps["next", "env_reward"].sum()) / 4)
        explore.step(steps.numel())
        replay.extend(steps.reshape(-1))
        for _ in range(6):
            loss = loss_of(replay.sample())["loss"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            target.step()
    collector.shutdown()
    assert np.mean(returns[:2]) < 1.5
    assert np.mean(returns[-5:]) > 3.0, "the best possible is 6"
