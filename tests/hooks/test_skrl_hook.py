# SPDX-License-Identifier: Apache-2.0
"""Learned rewards in skrl's environments."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from line_env import CELLS, LENGTH, LineEnv, image, online

from pureward import load_reward
from pureward.errors import InputError

pytest.importorskip("skrl", reason="skrl is not installed")

from skrl.agents.torch.ppo import PPO
from skrl.envs.wrappers.torch import Wrapper, wrap_env
from skrl.memories.torch import RandomMemory
from skrl.trainers.torch import SequentialTrainer
from skrl.utils.model_instantiators.torch import categorical_model, deterministic_model

from pureward.hooks.skrl import RewardWrapper


def vector(mode=AutoresetMode.NEXT_STEP, **changes):
    makers = [lambda n=n: LineEnv(length=n, **changes) for n in (3, 4)]
    return wrap_env(SyncVectorEnv(makers, autoreset_mode=mode), verbose=False)


def walk(env, steps: int):
    """Move right; return rewards and true rewards, (steps, worlds)."""
    env.reset()
    rewards, true = [], []
    for _ in range(steps):
        with torch.no_grad():  # as skrl's trainers do
            step = env.step(torch.ones(env.num_envs, 1))
        assert step[1].shape == step[4]["env_reward"].shape == (env.num_envs, 1)
        rewards.append(step[1][:, 0])
        true.append(step[4]["env_reward"][:, 0])
    return torch.stack(rewards), torch.stack(true)


def by_hand(reward, places) -> torch.Tensor:
    """The rewards of cells; of None, which is a reset, 0."""
    paid = [0.0 if p is None else float(reward(image(p)[None])) for row in places for p in row]
    return torch.tensor(paid).reshape(len(places), -1)


@pytest.mark.parametrize("frames", ["pixels", "render"])
def test_a_single_environment_is_paid_by_arrival_frames(frames):
    reward = online()
    env = RewardWrapper(wrap_env(LineEnv(), verbose=False), reward, frames=frames)
    rewards, true = walk(env, LENGTH)
    places = [[min(t + 1, CELLS - 1)] for t in range(LENGTH)]
    torch.testing.assert_close(rewards, by_hand(reward, places))
    assert true[:, 0].tolist() == [float(p == CELLS - 1) for (p,) in places]
    assert reward.frames.observed == LENGTH
    assert env.num_envs == 1
    assert env.action_space == LineEnv().action_space


def test_a_reset_before_the_end_begins_another_episode():
    reward = online()
    env = RewardWrapper(wrap_env(LineEnv(), verbose=False), reward)
    walk(env, 2)
    walk(env, 2)
    assert reward.frames.episodes(torch.arange(4)).diff().ne(0).tolist() == [0, 1, 0]


@pytest.mark.parametrize("frames", ["pixels", "render"])
def test_a_step_that_only_resets_is_paid_nothing_and_not_observed(frames):
    reward = online(horizon=LENGTH)
    env = RewardWrapper(vector(), reward, frames=frames, discount=0.9)
    rewards, _ = walk(env, 6)
    places = [[1, 1], [2, 2], [3, 3], [None, 4], [1, None], [2, 1]]
    assert reward._paid[1] == 10  # its mean, for the verdict, is over steps alone
    torch.testing.assert_close(rewards, by_hand(reward, places))
    assert reward.frames.observed == 10


def test_a_reset_in_the_same_step_keeps_the_last_frame():
    reward = online()
    env = RewardWrapper(vector(AutoresetMode.SAME_STEP), reward, frames="pixels")
    rewards, _ = walk(env, 5)
    places = [[1, 1], [2, 2], [3, 3], [1, 4], [2, 1]]
    torch.testing.assert_close(rewards, by_hand(reward, places))
    assert reward.frames.observed == 10


class Batch(Wrapper):
    """Two worlds that are reset in the step that ends an episode, without `final_obs`."""

    num_envs = 2
    observation_space = gymnasium.spaces.Box(0, 255, (32, 32, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        super().__init__(object())
        self.steps = 0

    def reset(self):
        return torch.as_tensor(image(0)).reshape(1, -1).repeat(2, 1), {}

    def step(self, actions):
        self.steps += 1
        over = torch.full((2, 1), self.steps % 3 == 0)
        seen = torch.as_tensor(image(self.steps % 3)).reshape(1, -1).repeat(2, 1)
        return seen, torch.zeros(2, 1), torch.zeros_like(over), over, {}

    def state(self):
        return None

    def render(self):
        return None

    def close(self):
        pass


def test_a_batch_without_last_frames_is_paid_by_the_frame_before():
    reward = online()
    env = RewardWrapper(Batch(), reward, frames="observation")
    rewards, _ = walk(env, 4)
    torch.testing.assert_close(rewards, by_hand(reward, [[1, 1], [2, 2], [2, 2], [1, 1]]))


def test_a_terminal_step_is_paid_for_the_absorbing_state():
    reward = online(horizon=LENGTH)
    env = RewardWrapper(
        wrap_env(LineEnv(ends=2), verbose=False), reward, frames="pixels", discount=0.9
    )
    rewards, _ = walk(env, 2)
    expected = by_hand(reward, [[1], [2]])
    expected[1] += reward.terminal_reward(0.9)
    assert reward.terminal_reward(0.9) != 0.0
    torch.testing.assert_close(rewards, expected)


def test_it_learns_every_so_many_steps_and_a_frozen_reward_does_not(tmp_path):
    reward = online()
    env = RewardWrapper(vector(), reward, learn_every=5, updates=2)
    walk(env, 20)
    assert reward.updates == 6, "at steps 10, 15 and 20; a batch has 16 frames"
    reward.save(tmp_path)
    frozen = load_reward(tmp_path, device="cpu")
    rewards, _ = walk(RewardWrapper(vector(), frozen), 2)
    torch.testing.assert_close(rewards, by_hand(reward, [[1, 1], [2, 2]]))


def test_bad_input_is_one_sentence():
    reward = online()
    with pytest.raises(InputError, match="wrap_env"):
        RewardWrapper(LineEnv(), reward)
    with pytest.raises(InputError, match="camera"):
        RewardWrapper(vector(), reward, frames="camera")
    with pytest.raises(InputError, match="same_step"):
        RewardWrapper(vector(AutoresetMode.SAME_STEP), reward, frames="render")
    with pytest.raises(InputError, match="DISABLED"):
        RewardWrapper(vector(AutoresetMode.DISABLED), reward)
    with pytest.raises(InputError, match="later"):
        RewardWrapper(vector(), reward, autoreset="later")
    with pytest.raises(InputError, match="render_mode"):
        RewardWrapper(vector(render_mode=None), reward, frames="render")
    with pytest.raises(InputError, match="absorbing state needs the discount"):
        RewardWrapper(vector(), online(horizon=9))


def test_a_policy_learns_from_a_reward_that_learns(tmp_path):
    """PPO walks to the demonstrated cell; random play stays left."""
    torch.manual_seed(0)
    true = []

    class Recorded(RewardWrapper):
        def step(self, actions):
            step = super().step(actions)
            true.append(step[4]["env_reward"].sum().item() / self.num_envs)
            return step

    worlds = wrap_env(SyncVectorEnv([LineEnv] * 4), verbose=False)
    env = Recorded(worlds, online(), frames="pixels", learn_every=6, updates=2)
    spaces = {
        "observation_space": env.observation_space,
        "action_space": env.action_space,
        "device": env.device,
    }
    layers = [{"name": "net", "input": "OBSERVATIONS['place']", "layers": []}]
    agent = PPO(
        models={
            "policy": categorical_model(**spaces, network=layers, output="ACTIONS"),
            "value": deterministic_model(**spaces, network=layers, output="ONE"),
        },
        memory=RandomMemory(memory_size=13, num_envs=4, device=env.device),
        cfg={
            "rollouts": 13,
            "learning_rate": 0.03,
            "discount_factor": 0.9,
            "experiment": {"directory": str(tmp_path), "write_interval": 0},
        },
        **spaces,
    )
    steps = 13 * 25
    trainer = SequentialTrainer(
        env=env,
        agents=agent,
        cfg={
            "timesteps": steps,
            "headless": True,
            "disable_progressbar": True,
            "close_environment_at_exit": False,
        },
    )
    trainer.train()
    returns = np.array(true).reshape(-1, 13).sum(1)
    assert returns[:2].mean() < 1.5
    assert returns[-5:].mean() > 3.0, "the best possible is 6"
