"""The Gymnasium adapters, tested with Gymnasium's checkers and wrappers."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import pureward

unbounded = pytest.mark.filterwarnings("ignore:.*Box observation space m(in|ax)imum value")


@unbounded
@pytest.mark.parametrize("cameras", [False, True])
@pytest.mark.parametrize("task", pureward.TASKS)
def test_a_single_env_passes_gymnasiums_checker(task, cameras):
    env = gymnasium.make(
        f"pureward/{task}-v0", device="cpu", cameras=cameras, render_mode="rgb_array"
    )
    check_env(env.unwrapped)


@pytest.mark.parametrize("task", pureward.TASKS)
def test_make_vec_gives_a_vector_env(task):
    env = gymnasium.make_vec(f"pureward/{task}-v0", num_envs=3, device="cpu")
    assert isinstance(env, VectorEnv)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert env.num_envs == 3
    env.action_space.seed(0)
    obs, info = env.reset(seed=1)
    assert env.observation_space.contains(obs)
    assert info == {}
    for _ in range(3):
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert env.observation_space.contains(obs)
        assert reward.shape == terminated.shape == truncated.shape == info["success"].shape == (3,)
        assert terminated.dtype == truncated.dtype == bool
    env.close()


def test_resetting_with_a_seed_repeats():
    env = pureward.make_vec("walker", 2, device="cpu", cameras=True)
    first, again, other = (env.reset(seed=seed)[0] for seed in (7, 7, 8))
    assert data_equivalence(first, again, exact=True)
    assert not data_equivalence(first, other)
    assert data_equivalence(env.reset(seed=[1, 2])[0], env.reset(seed=[1, 2])[0], exact=True)


def test_steps_repeat_and_arrays_are_not_overwritten():
    one, two = (pureward.make_vec("reach", 2, device="cpu", cameras=True) for _ in range(2))
    action = np.full((2, 2), 0.3, dtype=np.float32)
    for env in (one, two):
        env.reset(seed=3)
    first = one.step(action)
    one.step(-action)
    assert data_equivalence(first, two.step(action), exact=True)


def test_the_last_observation_of_an_episode_is_in_info():
    env = RecordEpisodeStatistics(pureward.make_vec("reach", 2, device="cpu"))
    env.reset(seed=0)
    action = np.ones((2, 2), dtype=np.float32)
    for _ in range(99):
        *_, truncated, info = env.step(action)
        assert not truncated.any()
        assert "final_obs" not in info
    obs, _, _, truncated, info = env.step(action)
    assert truncated.all()
    assert info["_final_obs"].all()
    for world in range(2):
        assert env.single_observation_space.contains(info["final_obs"][world])
        assert not np.array_equal(info["final_obs"][world], obs[world])
    assert (info["episode"]["l"] == 100).all()
    assert info["final_info"]["success"].tolist() == info["success"].tolist()


def test_render_gives_an_image_a_world():
    env = pureward.make_vec("walker", 2, device="cpu", cameras=True)
    env.reset(seed=0)
    images = env.render()
    assert len(images) == 2
    assert images[0].shape == (64, 64, 3)
    assert pureward.make_vec("walker", 2, device="cpu").render() is None


def test_distractors_reach_the_env_from_gymnasium():
    for env in (
        gymnasium.make("pureward/lift-v0", device="cpu", distractors="cuboid").unwrapped.env,
        gymnasium.make_vec("pureward/lift-v0", 2, device="cpu", distractors="cuboid").env,
        pureward.make_vec("lift", 2, device="cpu", distractors="cuboid").env,
    ):
        np.testing.assert_allclose(2 * env.engine.model.geom("red").size, [0.04, 0.04, 0.08])


def test_a_diverged_world_terminates_with_its_last_observation():
    env = pureward.make_vec("walker", 3, device="cpu", engine="warp")
    env.reset(seed=0)
    env.env.engine.state.qpos[1] = float("nan")
    obs, _, terminated, truncated, info = env.step(np.zeros((3, 6), dtype=np.float32))
    assert terminated.tolist() == [False, True, False]
    assert not truncated.any()
    assert info["_final_obs"].tolist() == [False, True, False]
    assert np.isfinite(info["final_obs"][1]).all()
    assert env.observation_space.contains(obs)


def test_seeds_may_be_numpy_types():
    env = pureward.make_vec("reach", 2, device="cpu")
    assert np.array_equal(env.reset(seed=7)[0], env.reset(seed=np.int64(7))[0])
    assert np.array_equal(env.reset(seed=[1, 2])[0], env.reset(seed=np.array([1, 2]))[0])


@pytest.mark.parametrize("seed", [[1], [1, 2, 3], [1, None], [1, -2], "ab", 1.5])
def test_seeds_must_be_one_per_world(seed):
    env = pureward.make_vec("reach", 2, device="cpu")
    with pytest.raises(pureward.InputError, match="seed must be a whole number or a list of 2"):
        env.reset(seed=seed)


def test_resetting_some_worlds_is_rejected():
    env = pureward.make_vec("reach", 2, device="cpu")
    with pytest.raises(pureward.InputError, match="reset together, got a reset_mask; leave it out"):
        env.reset(options={"reset_mask": np.array([True, False])})


def test_rendered_images_are_not_overwritten():
    env = pureward.make_vec("reach", 2, device="cpu", cameras=True)
    env.reset(seed=0)
    images = env.render()
    before = np.array(images)
    for _ in range(10):
        env.step(np.ones((2, 2), dtype=np.float32))
    assert not np.array_equal(env.render(), before)
    assert np.array_equal(images, before)


def test_rendering_does_not_change_observations():
    vector = gymnasium.make_vec("pureward/reach-v0", 2, device="cpu", render_mode="rgb_array")
    single = gymnasium.make("pureward/reach-v0", device="cpu", render_mode="rgb_array")
    assert vector.single_observation_space == single.observation_space
    assert vector.single_observation_space.shape == (4,)
    obs, _ = vector.reset(seed=0)
    assert vector.observation_space.contains(obs)
    single.reset(seed=0)
    assert single.render().shape == vector.render()[0].shape == (64, 64, 3)


@pytest.mark.parametrize(("cameras", "mode"), [(True, "rgb_array"), (False, None)])
def test_render_mode_follows_cameras(cameras, mode):
    assert pureward.make_vec("reach", 1, device="cpu", cameras=cameras).render_mode == mode


def test_the_last_image_is_of_the_ended_episode():
    env = gymnasium.make("pureward/reach-v0", device="cpu", cameras=True, render_mode="rgb_array")
    env.reset(seed=0)
    truncated = False
    while not truncated:
        obs, _, _, truncated, _ = env.step(np.ones(2, dtype=np.float32))
    assert np.array_equal(env.render(), obs["frames"].transpose(1, 2, 0))


def test_unknown_render_modes_are_rejected():
    for make in (gymnasium.make, gymnasium.make_vec):
        with pytest.raises(pureward.InputError, match="render_mode must be .* got 'human'"):
            make("pureward/reach-v0", device="cpu", render_mode="human")


@pytest.mark.filterwarnings("error")
def test_actions_may_be_read_only():
    env = pureward.make_vec("reach", 2, device="cpu")
    action = np.zeros((2, 2), dtype=np.float32)
    action.flags.writeable = False
    env.step(action)
