# SPDX-License-Identifier: Apache-2.0
"""Gymnasium environments on a learned reward: which frame is scored, and what is paid."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from hook_envs import SIDE, CounterEnv, SlideEnv, counted, frozen, online, slide_reward

from operators import Operators
from pureward import InputError, OnlineReward, load_reward
from pureward.hooks.gymnasium import RewardWrapper, VectorRewardWrapper
from pureward.online.online_reward import frames_of
from pureward.pixels import to_frames

ACTION = np.zeros(1, np.float32)


def stepped(env):
    env.reset()
    return env.step(ACTION)


def paid(reward, *frames: np.ndarray) -> np.ndarray:
    """Rewards by hand, of images."""
    images = torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2).contiguous()
    if isinstance(reward, OnlineReward):
        images = images.permute(0, 2, 3, 1)
        images = images.repeat_interleave(2, 1).repeat_interleave(2, 2)  # its frames are 64×64
    return reward(images).numpy()


@pytest.mark.parametrize(
    ("frames", "observes"),
    [
        ("render", "state"),
        ("image", "dict"),
        ("observation", "image"),
        (lambda env, obs: counted(int(obs[0]), env.unwrapped.episode), "state"),
    ],
)
def test_a_step_is_paid_for_the_state_in_which_it_arrives(frames, observes):
    reward = frozen()
    env = RewardWrapper(CounterEnv(3, observes=observes), reward, frames=frames)
    for episode in (0, 1):
        env.reset()
        for t in (1, 2, 3):
            _, got, terminated, truncated, info = env.step(ACTION)
            assert got == pytest.approx(float(paid(reward, counted(t, episode))[0]), rel=1e-5)
            assert info["env_reward"] == 10.0 * t
            assert (terminated, truncated) == (t == 3, False)
    distinct = paid(reward, *[counted(t, e) for t in range(5) for e in range(3)])
    assert len(set(distinct.tolist())) == 15, "every frame has its own reward"


def test_a_reward_that_learns_observes_arrival_frames_and_learns_in_time():
    reward = online()
    env = RewardWrapper(CounterEnv(3, terminates=False), reward, learn_every=16, updates=3)
    while reward.frames.observed < 48:
        env.reset()
        for _ in range(3):
            env.step(ACTION)
    assert reward.updates == 9
    shown = reward.frames.arrival_frames(torch.arange(4))
    expected = np.stack([counted(t, e) for t, e in ((1, 0), (2, 0), (3, 0), (1, 1))])
    assert torch.equal(shown, frames_of(expected, reward.learner.learned))
    assert reward.frames.episodes(torch.arange(6)).diff().ne(0).tolist() == [0, 0, 1, 0, 0]


def test_a_terminal_step_is_also_paid_for_the_absorbing_state():
    reward = online(horizon=8)
    with pytest.raises(InputError, match="discount=0.99"):
        RewardWrapper(CounterEnv(), reward)
    with pytest.raises(InputError, match=r"\[0, 1\)"):
        RewardWrapper(CounterEnv(), reward, discount=1.0)
    for terminates in (True, False):
        env = RewardWrapper(CounterEnv(2, terminates=terminates), reward, discount=0.9)
        env.reset()
        got = [env.step(ACTION)[1] for _ in range(2)]
        expected = reward(np.stack([counted(1), counted(2)])).numpy().astype(np.float64)
        expected[1] += terminates * reward.terminal_reward(0.9)
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert reward.terminal_reward(0.9) > 0.1
    assert float(reward.learner.absorbing.agent_share) == pytest.approx(6 / 10, rel=1e-3)


def test_a_reset_before_the_end_begins_another_episode():
    """By hand: 2 + 2 steps that are cut, then an episode of 3 that leaves 5 of 8 steps."""
    reward = online(horizon=8)
    env = RewardWrapper(CounterEnv(3), reward, discount=0.9)
    for steps in (2, 2, 3):
        env.reset()
        for _ in range(steps):
            env.step(ACTION)
    env.reset()
    env.reset()
    assert reward.frames.episodes(torch.arange(7)).diff().ne(0).tolist() == [0, 1, 0, 1, 0, 0]
    assert reward.frames.observed == 7
    assert float(reward.learner.absorbing.agent_share) == pytest.approx(5 / 12, rel=1e-3)


def test_worlds_of_a_reset_mask_begin_other_episodes():
    reward = online()
    mode = AutoresetMode.DISABLED
    envs = VectorRewardWrapper(SyncVectorEnv([CounterEnv] * 2, autoreset_mode=mode), reward)
    envs.reset()
    envs.step(np.zeros((2, 1), np.float32))
    envs.reset(options={"reset_mask": np.array([False, True])})
    envs.step(np.zeros((2, 1), np.float32))
    first, second, third, fourth = reward.frames.episodes(torch.arange(4)).tolist()
    assert first == third
    assert second != fourth


def test_a_frozen_reward_also_pays_for_the_absorbing_state(tmp_path):
    """By hand: γ = 0.9 pays nine rewards of a black frame more."""
    online(horizon=8).save(tmp_path)
    reward = load_reward(tmp_path)
    with pytest.raises(InputError, match="discount=0.99"):
        RewardWrapper(CounterEnv(), reward)
    env = RewardWrapper(CounterEnv(2), reward, discount=0.9)
    env.reset()
    got = [env.step(ACTION)[1] for _ in range(2)]
    seen = to_frames(np.stack([counted(1), counted(2), np.zeros_like(counted(0))]))
    first, last, black = reward(seen).tolist()
    np.testing.assert_allclose(got, [first, last + 9 * black], rtol=1e-5)
    assert black > 0.01


#: The frames (step, episode) of two environments with episodes of 2 and 3 steps, by hand.
SAME_STEP = [
    [(1, 0), (1, 0)],
    [(2, 0), (2, 0)],
    [(1, 1), (3, 0)],
    [(2, 1), (1, 1)],
    [(1, 2), (2, 1)],
    [(2, 2), (3, 1)],
]
NEXT_STEP = [
    [(1, 0), (1, 0)],
    [(2, 0), (2, 0)],
    [None, (3, 0)],
    [(1, 1), None],
    [(2, 1), (1, 1)],
    [None, (2, 1)],
]
MODES = [
    (AutoresetMode.SAME_STEP, SAME_STEP),
    (AutoresetMode.NEXT_STEP, NEXT_STEP),
    (AutoresetMode.DISABLED, SAME_STEP),
]
SOURCES = [
    ("render", "state"),
    ("image", "dict"),
    ("observation", "image"),
    (lambda envs, obs: obs["image"], "dict"),
]


@pytest.mark.parametrize(("mode", "expected"), MODES, ids=lambda m: getattr(m, "name", ""))
@pytest.mark.parametrize(("frames", "observes"), SOURCES)
@pytest.mark.parametrize("learns", [False, True])
def test_every_autoreset_mode_scores_arrival_frames(mode, expected, frames, observes, learns):
    if frames == "render" and mode == AutoresetMode.SAME_STEP:
        pytest.skip("refused, see below")
    reward = online() if learns else frozen()
    makers = [lambda n=n: CounterEnv(n, observes=observes) for n in (2, 3)]
    envs = SyncVectorEnv(makers, autoreset_mode=mode)
    envs = VectorRewardWrapper(envs, reward, frames=frames)
    envs.reset(seed=0)
    shown = []
    for row in expected:
        _, got, terminated, truncated, info = envs.step(np.zeros((2, 1), np.float32))
        for i, state in enumerate(row):
            if state is None:
                assert got[i] == 0.0
                assert not info["_env_reward"][i]
            else:
                by_hand = reward(np.stack([counted(*state)])) if learns else None
                by_hand = paid(reward, counted(*state)) if by_hand is None else by_hand.numpy()
                assert got[i] == pytest.approx(float(by_hand[0]), rel=1e-4)
                assert info["env_reward"][i] == 10.0 * state[0]
                assert terminated[i] == (state[0] == (2, 3)[i])
                shown.append(counted(*state))
        ended = terminated | truncated
        if mode == AutoresetMode.DISABLED and ended.any():
            envs.reset(options={"reset_mask": ended})
    if learns:
        assert reward.frames.observed == len(shown)
        frames = reward.frames.arrival_frames(torch.arange(len(shown)))
        assert torch.equal(frames, frames_of(np.stack(shown), reward.learner.learned))
        assert len(reward.frames.episodes(torch.arange(len(reward.frames))).unique()) == (
            5 if mode != AutoresetMode.NEXT_STEP else 4
        )


@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_step_of_all_worlds_selects_no_frames_on_the_device(mode):
    """A GPU would be waited for."""
    makers = [lambda: CounterEnv(9, observes="image")] * 2
    envs = SyncVectorEnv(makers, autoreset_mode=mode)
    envs = VectorRewardWrapper(envs, online(), frames="observation")
    envs.reset(seed=0)
    envs.step(np.zeros((2, 1), np.float32))  # the first one checks
    with Operators() as seen:
        envs.step(np.zeros((2, 1), np.float32))
    assert "convolution" in seen.names
    assert seen.waiting <= {"lift_fresh"}  # flags and frames of the environment


def test_worlds_in_processes_and_statistics_on_either_side():
    reward = frozen()
    envs = AsyncVectorEnv(
        [lambda: CounterEnv(2, observes="dict")] * 2, autoreset_mode=AutoresetMode.SAME_STEP
    )
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs, stats_key="true")
    envs = VectorRewardWrapper(envs, reward, frames="image")
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    try:
        envs.reset(seed=0)
        envs.step(np.zeros((2, 1), np.float32))
        info = envs.step(np.zeros((2, 1), np.float32))[-1]
    finally:
        envs.close()
    assert info["true"]["r"].tolist() == [30.0, 30.0]
    both = paid(reward, counted(1), counted(2)).sum()
    np.testing.assert_allclose(info["episode"]["r"], [both, both], rtol=1e-5)


def test_a_reset_between_two_steps_is_no_reset_step():
    reward = frozen()
    envs = VectorRewardWrapper(SyncVectorEnv([lambda: CounterEnv(2)]), reward)
    envs.reset(seed=0)
    for _ in range(2):
        _, _, terminated, _, _ = envs.step(np.zeros((1, 1), np.float32))
    assert terminated.all()
    envs.reset()
    _, got, _, _, _ = envs.step(np.zeros((1, 1), np.float32))
    np.testing.assert_allclose(got, paid(reward, counted(1, 1)), rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RewardWrapper(CounterEnv(), print), "OnlineReward or a LearnedReward, got"),
        (lambda: RewardWrapper(CounterEnv(), frozen(), frames="nothing"), "image, state"),
        (
            lambda: RewardWrapper(CounterEnv(observes="image"), frozen(), frames="image"),
            "'observation'",
        ),
        (
            lambda: RewardWrapper(CounterEnv(observes="state"), frozen(), frames="observation"),
            r"^frames='observation' must be images, got observations of shape \(1,\); use",
        ),
        (
            lambda: VectorRewardWrapper(SyncVectorEnv([CounterEnv]), frozen(), frames="state"),
            r"^frames='state' must be images, got observations of shape \(1,\)",
        ),
        (lambda: RewardWrapper(CounterEnv(render_mode=None), frozen()), "render_mode"),
        (lambda: RewardWrapper(CounterEnv(), frozen(), learn_every=-1), "learn_every"),
        (
            lambda: stepped(RewardWrapper(CounterEnv(), online(stack=2))),
            r"6 channels .* 2 consecutive RGB images, .*, got 3; .* \(--replay.frame-stack 1\)",
        ),
    ],
)
def test_bad_input_is_one_sentence(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_vector_environments_that_lose_the_frame_are_refused():
    envs = SyncVectorEnv([CounterEnv], autoreset_mode=AutoresetMode.SAME_STEP)
    with pytest.raises(InputError, match="SAME_STEP.*; change the mode, or take frames"):
        VectorRewardWrapper(envs, frozen())
    envs.metadata = {}
    with pytest.raises(InputError, match="autoreset_mode"):
        VectorRewardWrapper(envs, frozen(), frames="image")


def test_frames_that_do_not_fit_are_one_sentence():
    env = RewardWrapper(CounterEnv(), frozen(), frames=lambda env, obs: np.zeros((32, 32, 6), "u1"))
    env.reset()
    with pytest.raises(InputError, match="3 channels"):
        env.step(ACTION)
    env = RewardWrapper(CounterEnv(), frozen(), frames=lambda env, obs: None)
    env.reset()
    with pytest.raises(InputError, match="None"):
        env.step(ACTION)


def test_a_larger_image_is_resized_to_the_frames_of_the_reward():
    reward = frozen()
    env = RewardWrapper(
        CounterEnv(), reward, frames=lambda env, obs: obs["image"].repeat(3, 0).repeat(3, 1)
    )
    env.reset()
    assert env.step(ACTION)[1] == pytest.approx(float(paid(reward, counted(1))[0]), rel=0.05)
    assert reward.spec.network.height == SIDE


def test_q_learning_on_a_learned_reward_learns_the_task():
    """Tabular Q-learning that never sees the true reward: 350 steps of 8 environments."""
    envs = SyncVectorEnv([SlideEnv] * 8, autoreset_mode=AutoresetMode.NEXT_STEP)
    envs = VectorRewardWrapper(envs, slide_reward(), learn_every=10, updates=5)
    rng, table = np.random.default_rng(0), np.zeros((11, 3))

    def cells(obs):
        return np.round(5 * (obs[:, 0] + 1)).astype(int)

    returns, total = [], np.zeros(8)
    obs, _ = envs.reset(seed=0)
    for t in range(350):
        explore = rng.random(8) < max(0.1, 1 - t / 200)
        choice = np.where(explore, rng.integers(3, size=8), table[cells(obs)].argmax(1))
        after, got, _, truncated, info = envs.step((choice[:, None] - 1).astype("f4"))
        target, stepped = got + 0.9 * table[cells(after)].max(1), info["_env_reward"]
        for i in np.flatnonzero(stepped):
            place = (cells(obs)[i], choice[i])
            table[place] += 0.2 * (target[i] - table[place])
        total += info["env_reward"]
        returns.extend(total[truncated])
        total[truncated] = 0.0
        obs = after
    random, learned = np.mean(returns[:32]), np.mean(returns[-32:])
    assert random < 4
    assert learned > 9, f"the best is about 15, at first it was {random:.1f}"
