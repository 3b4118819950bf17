# SPDX-License-Identifier: Apache-2.0
"""Stable-Baselines3 on a learned reward: arrival frames, relabelling, and that policies learn."""

import numpy as np
import pytest
import torch
from hook_envs import CounterEnv, SlideEnv, counted, frozen, online, slide_reward
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

from pureward import InputError
from pureward.hooks.stable_baselines3 import (
    RecordFrames,
    RewardCallback,
    RewardDictReplayBuffer,
    RewardNStepReplayBuffer,
    RewardReplayBuffer,
    RewardVecEnv,
)
from pureward.online.online_reward import frames_of

SMALL_SAC = {"learning_starts": 4, "batch_size": 8, "device": "cpu", "seed": 0}


def vec_env(*lengths: int, frames="render", **options) -> DummyVecEnv:
    """Environments whose episodes have these lengths."""
    wrapper = RecordFrames if frames == "render" else (lambda env: env)
    return DummyVecEnv([lambda n=n: wrapper(CounterEnv(n, **options)) for n in lengths])


def step(venv):
    return venv.step(np.zeros((venv.num_envs, 1), np.float32))


def by_hand(reward, *states: tuple[int, int]) -> np.ndarray:
    """Rewards of frames (step, episode)."""
    images = np.stack([counted(*state) for state in states])
    if isinstance(reward, type(frozen())):
        images = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
    return reward(images).numpy()


@pytest.mark.parametrize(
    ("frames", "observes"),
    [
        ("render", "state"),
        ("image", "dict"),
        ("observation", "image"),
        (lambda venv, obs: obs["image"], "dict"),
    ],
)
@pytest.mark.parametrize("learns", [False, True])
def test_the_frame_of_an_ended_episode_is_that_of_its_last_state(frames, observes, learns):
    reward = online() if learns else frozen()
    venv = RewardVecEnv(vec_env(2, 3, frames=frames, observes=observes), reward, frames=frames)
    venv.reset()
    states = [[(1, 0), (1, 0)], [(2, 0), (2, 0)], [(1, 1), (3, 0)], [(2, 1), (1, 1)]]
    for row in states:
        _, rewards, dones, infos = step(venv)
        np.testing.assert_allclose(rewards, by_hand(reward, *row), rtol=1e-4)
        assert rewards.dtype == np.float32
        assert dones.tolist() == [row[0][0] == 2, row[1][0] == 3]
        assert [info["env_reward"] for info in infos] == [10.0 * t for t, _ in row]
        for info, done, total in zip(infos, dones, (30.0, 60.0), strict=True):
            assert info.get("env_return") == (total if done else None)
    if learns:
        shown = np.stack([counted(*state) for row in states for state in row])
        seen = frames_of(shown, reward.learner.learned)
        assert torch.equal(reward.frames.arrival_frames(torch.arange(8)), seen)
        assert len(reward.frames.episodes(torch.arange(len(reward.frames))).unique()) == 4


@pytest.mark.parametrize("terminates", [True, False])
def test_a_terminal_step_is_also_paid_for_the_absorbing_state(terminates):
    reward = online(horizon=8)
    with pytest.raises(InputError, match="discount=0.99"):
        RewardVecEnv(vec_env(2), reward)
    venv = RewardVecEnv(vec_env(2, terminates=terminates), reward, discount=0.9)
    venv.reset()
    step(venv)
    _, rewards, _, _ = step(venv)
    after = reward.terminal_reward(0.9) if terminates else 0.0
    np.testing.assert_allclose(rewards, by_hand(reward, (2, 0)) + after, rtol=1e-4)


def test_a_reset_before_the_end_begins_other_episodes():
    reward = online()
    venv = RewardVecEnv(vec_env(3, 3), reward)
    for _ in range(2):  # as two calls of model.learn do
        venv.reset()
        step(venv)
    assert len(reward.frames.episodes(torch.arange(len(reward.frames))).unique()) == 4


def test_statistics_of_episodes_have_the_true_return():
    venv = make_vec_env(lambda: CounterEnv(2), n_envs=1, wrapper_class=RecordFrames)
    venv = RewardVecEnv(venv, frozen())  # make_vec_env puts a Monitor inside
    venv.reset()
    step(venv)
    info = step(venv)[3][0]
    assert info["episode"]["r"] == info["episode"]["env_return"] == 30.0
    reward = frozen()
    venv = VecMonitor(RewardVecEnv(vec_env(2), reward), info_keywords=("env_return",))
    venv.reset()
    step(venv)
    info = step(venv)[3][0]
    assert info["episode"]["env_return"] == 30.0
    assert info["episode"]["r"] == pytest.approx(by_hand(reward, (1, 0), (2, 0)).sum(), rel=1e-4)


def filled(buffer_class, reward, lengths=(3, 4), steps=12, *, frames="render", **options):
    """A buffer of SAC after some steps, its environment, and the frames (step, episode)."""
    options.setdefault("observes", "state")
    venv = RewardVecEnv(
        vec_env(*lengths, frames=frames, **options), reward, frames=frames, discount=0.9
    )
    kwargs = {"n_steps": 3, "gamma": 0.9} if buffer_class is RewardNStepReplayBuffer else {}
    buffer = buffer_class(
        40, venv.observation_space, venv.action_space, "cpu", n_envs=len(lengths), **kwargs
    )
    seen, states = venv.reset(), []
    counts, episodes = np.zeros(len(lengths), int), np.zeros(len(lengths), int)
    for _ in range(steps):
        action = np.zeros((len(lengths), 1), np.float32)
        after, rewards, dones, infos = venv.step(action)
        buffer.add(seen, after, action, rewards, dones, infos)
        seen, counts = after, counts + 1
        states.append([(int(c), int(e) % 3) for c, e in zip(counts, episodes, strict=True)])
        episodes, counts = episodes + dones, np.where(dones, 0, counts)
    return buffer, venv, states


@pytest.mark.parametrize(
    ("buffer_class", "observes"),
    [(RewardReplayBuffer, "state"), (RewardDictReplayBuffer, "dict")],
)
def test_sampled_rewards_are_those_of_the_current_reward(buffer_class, observes):
    reward = online()
    buffer, _, states = filled(buffer_class, reward, observes=observes)
    with pytest.raises(InputError, match="RewardCallback"):
        buffer.sample(4)
    buffer.set_reward(reward)
    index = np.arange(12)
    for updates in (0, 5):
        before = by_hand(reward, (1, 0))
        reward.learn(updates)
        assert (by_hand(reward, (1, 0)) != before).any() == (updates > 0)
        for env in (0, 1):
            expected = by_hand(reward, *[row[env] for row in states])
            np.testing.assert_allclose(buffer.rewards[index, env], expected, rtol=1e-4)
        np.random.seed(1)
        env = np.random.randint(0, 2, size=12)  # as the buffer draws it
        np.random.seed(1)
        samples = buffer._get_samples(index)
        expected = by_hand(reward, *[row[e] for row, e in zip(states, env, strict=True)])
        np.testing.assert_allclose(samples.rewards[:, 0].numpy(), expected, rtol=1e-4)
    true = [[10.0 * t for t, _ in row] for row in states]
    np.testing.assert_array_equal(buffer.env_rewards[:12], true)


@pytest.mark.parametrize("terminates", [True, False])
def test_every_step_of_an_n_step_window_is_relabelled(terminates):
    reward = online(horizon=20)
    buffer, _, states = filled(
        RewardNStepReplayBuffer, reward, lengths=(4,), steps=10, terminates=terminates
    )
    buffer.set_reward(reward, discount=0.9)
    assert reward.learn(5), "rewards now differ from those paid when the steps were taken"
    after = reward.terminal_reward(0.9) * terminates
    each = by_hand(reward, *[row[0] for row in states])
    samples = buffer._get_samples(np.array([0, 2, 3, 8]))
    expected = [
        each[0] + 0.9 * each[1] + 0.81 * each[2],
        each[2] + 0.9 * (each[3] + after),  # the episode ends at its fourth step
        each[3] + after,
        each[8] + 0.9 * each[9],  # the newest step
    ]
    np.testing.assert_allclose(samples.rewards[:, 0].numpy(), expected, rtol=1e-4)
    assert samples.dones[:, 0].tolist() == [0.0, float(terminates), float(terminates), 0.0]


def test_a_full_buffer_has_the_frames_of_its_newest_steps():
    reward = frozen()
    buffer, _, states = filled(RewardReplayBuffer, reward, steps=25)  # it holds 20
    buffer.set_reward(reward)
    newest = [row[1] for row in states[20:25]] + [row[1] for row in states[5:20]]
    np.testing.assert_allclose(
        buffer.rewards[np.arange(20), 1], by_hand(reward, *newest), rtol=1e-4
    )


def test_relabelled_rewards_are_normalized_like_others():
    reward = frozen()
    buffer, venv, states = filled(RewardReplayBuffer, reward, lengths=(3,))
    buffer.set_reward(reward)
    normal = VecNormalize(venv, gamma=0.9)
    normal.ret_rms.var = np.float64(4.0)
    samples = buffer._get_samples(np.arange(5), env=normal)
    expected = normal.normalize_reward(by_hand(reward, *[row[0] for row in states[:5]]))
    np.testing.assert_allclose(samples.rewards[:, 0].numpy(), expected, rtol=1e-4)


def test_models_and_buffers_are_saved_without_the_reward(tmp_path):
    reward = online()
    venv = RewardVecEnv(vec_env(3, observes="state"), reward)
    model = SAC(
        "MlpPolicy", venv, buffer_size=20, replay_buffer_class=RewardReplayBuffer, **SMALL_SAC
    )
    callback = RewardCallback(reward, every=40, updates=1)
    model.learn(50, callback=callback)
    assert reward.updates == 1
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    frames = model.replay_buffer.frames
    assert (tmp_path / "buffer.pkl").stat().st_size < frames.nbytes + 10_000
    again = SAC.load(tmp_path / "model", env=venv)
    again.load_replay_buffer(tmp_path / "buffer")
    np.testing.assert_array_equal(again.replay_buffer.frames, frames)
    again.learn(10, callback=RewardCallback(reward), reset_num_timesteps=False)
    assert again.num_timesteps == 60


def test_an_evaluation_with_the_same_wrappers_is_not_observed():
    reward = online()
    venv = VecNormalize(RewardVecEnv(vec_env(3, observes="state"), reward))
    second = make_vec_env(lambda: CounterEnv(3, observes="state"), 1, wrapper_class=RecordFrames)
    second = RewardVecEnv(second, reward.learner.learned)
    shown = VecNormalize(second, training=False, norm_reward=False)
    evaluation = EvalCallback(shown, n_eval_episodes=2, eval_freq=20, verbose=0)
    model = PPO("MlpPolicy", venv, n_steps=20, batch_size=20, n_epochs=1, device="cpu")
    model.learn(40, callback=[RewardCallback(reward, every=20, updates=1), evaluation])
    assert evaluation.last_mean_reward == 60.0
    assert (reward.frames.observed, reward.updates) == (40, 2)
    second.reset()
    _, got, _, infos = step(second)
    np.testing.assert_allclose(got, reward(infos[0]["frame"][None]).numpy(), rtol=1e-5)


def test_the_callback_counts_steps_over_several_calls_of_learn():
    reward = online()
    venv = RewardVecEnv(vec_env(3, observes="state"), reward)
    model = PPO("MlpPolicy", venv, n_steps=20, batch_size=20, n_epochs=1, device="cpu")
    callback = RewardCallback(reward, every=40, updates=1)
    for _ in range(4):
        model.learn(20, callback=callback, reset_num_timesteps=False)
    assert reward.updates == 2


def test_the_callback_logs_metrics_and_the_verdict(tmp_path):
    reward = online()
    venv = RewardVecEnv(vec_env(3, observes="state"), reward)
    model = PPO("MlpPolicy", venv, n_steps=20, batch_size=20, n_epochs=1, device="cpu")
    model.set_logger(configure(str(tmp_path), ["json"]))
    callback = RewardCallback(reward, every=40, updates=2)
    model.learn(80, callback=callback)
    model.logger.close()
    logged = (tmp_path / "progress.json").read_text()
    for name in ("reward/prior", "reward/risk/value", "reward/env_return", "reward/verdict"):
        assert f'"{name}"' in logged, logged
    assert '"reward/env_return": 60.0' in logged
    assert reward.updates == 4
    assert callback.verdict is not None
    assert callback.verdict.name in logged


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RewardVecEnv(vec_env(2, frames="image"), frozen()), "wrapper_class=RecordFrames"),
        (lambda: RewardVecEnv(vec_env(2), frozen(), frames="nothing"), "image, state"),
        (lambda: RewardVecEnv(CounterEnv(), frozen()), "VecEnv, got CounterEnv; use make_vec_env"),
        (lambda: filled(RewardReplayBuffer, frozen(), observes="dict"), "=RewardDictReplayBuffer"),
        (lambda: filled(RewardDictReplayBuffer, frozen()), "=RewardReplayBuffer"),
        (lambda: RecordFrames(CounterEnv(render_mode=None)), "render_mode"),
        (lambda: RewardCallback(frozen()), "a frozen reward needs no callback"),
        (lambda: RewardCallback(online(), every=0), "at least 1, got 0"),
        (
            lambda: SAC(
                "MlpPolicy",
                vec_env(2, observes="state"),
                buffer_size=20,
                replay_buffer_class=RewardReplayBuffer,
                **SMALL_SAC,
            ).learn(5),
            "wrap the environment in RewardVecEnv",
        ),
        (
            lambda: RewardVecEnv(vec_env(2), frozen()).env_method("compute_reward"),
            "HerReplayBuffer takes rewards from the environment's compute_reward",
        ),
    ],
)
def test_bad_input_is_one_sentence(make, words):
    with pytest.raises(InputError, match=words):
        make()


def true_return(model) -> float:
    mean, _ = evaluate_policy(model, make_vec_env(SlideEnv, 4, seed=5), 16)
    return float(mean)


def test_ppo_learns_the_task_from_a_learned_reward():
    """The best return is about 16, that of a random policy about 1."""
    reward = slide_reward()
    venv = make_vec_env(SlideEnv, n_envs=8, seed=0, wrapper_class=RecordFrames)
    model = PPO(
        "MlpPolicy",
        RewardVecEnv(venv, reward),
        n_steps=32,
        gamma=0.9,
        learning_rate=3e-3,
        policy_kwargs={"net_arch": [32]},
        seed=0,
        device="cpu",
    )
    assert true_return(model) < 4
    model.learn(2048, callback=RewardCallback(reward, every=64, updates=3))
    assert true_return(model) > 9


def test_sac_learns_the_task_from_relabelled_windows():
    reward = slide_reward()
    venv = make_vec_env(SlideEnv, n_envs=4, seed=0, wrapper_class=RecordFrames)
    model = SAC(
        "MlpPolicy",
        RewardVecEnv(venv, reward),
        buffer_size=5000,
        learning_starts=200,
        batch_size=64,
        gamma=0.9,
        learning_rate=3e-3,
        ent_coef=0.05,
        policy_kwargs={"net_arch": [32]},
        replay_buffer_class=RewardNStepReplayBuffer,
        replay_buffer_kwargs={"n_steps": 3, "gamma": 0.9},
        seed=0,
        device="cpu",
    )
    assert true_return(model) < 4
    model.learn(800, callback=RewardCallback(reward, every=40, updates=5))
    assert true_return(model) > 9
