"""Our walker against the real one: dm_control.suite.load("walker", "walk")."""

import numpy as np
import pytest
import torch

from pureward.envs.sim.mujoco_cpu import CpuEngine
from pureward.envs.sim.mujoco_warp import WarpEngine
from pureward.envs.tasks import TASKS
from pureward.envs.tasks.walker import success

suite = pytest.importorskip("dm_control.suite", reason="needs dm_control with what it imports")
WALKER = TASKS["walker"]
MODEL = WALKER.build()
STEPS = 200


def suite_trajectory(seed: int):
    """First position, actions, and what the suite observes and rewards on the way."""
    env = suite.load("walker", "walk", task_kwargs={"random": seed})
    env.reset()
    first = env.physics.data.qpos.copy()
    actions = np.random.default_rng(seed).uniform(-1, 1, (STEPS, 6))
    seen, rewards, states = [], [], []
    for action in actions:
        states.append((env.physics.data.qpos.copy(), env.physics.data.qvel.copy()))
        step = env.step(action)
        seen.append(np.concatenate([np.ravel(part) for part in step.observation.values()]))
        rewards.append(step.reward)
    return first, actions, np.array(seen), np.array(rewards), states


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_c_engine_repeats_the_suite_for_200_steps(seed):
    first, actions, seen, rewards, _ = suite_trajectory(seed)
    engine = CpuEngine(MODEL, 2, substeps=WALKER.substeps)  # two worlds, one looked at
    engine.state.qpos[1] = torch.from_numpy(first)
    engine.refresh()
    for action, observation, reward in zip(actions, seen, rewards, strict=True):
        engine.state.ctrl.copy_(torch.from_numpy(action))
        engine.step()
        np.testing.assert_allclose(WALKER.observe(engine.state)[1], observation, atol=1e-6, rtol=0)
        np.testing.assert_allclose(WALKER.reward(engine.state)[1], reward, atol=1e-6, rtol=0)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "mujoco_warp"])
def test_warp_repeats_the_suite_step_by_step(fused):
    """From each state of the suite's trajectory, one control step on Warp.

    Single precision and ten substeps leave 1e-5 in the observation's joint velocities (tens of
    radians a second); where a contact opens or closes within the step, rounding decides in which
    substep, and a few steps in a hundred end up further off. A whole trajectory is chaotic, so
    steps are compared one by one.
    """
    _, actions, seen, rewards, states = suite_trajectory(0)
    engine = WarpEngine(
        MODEL,
        STEPS,
        substeps=WALKER.substeps,
        limits=WALKER.limits,
        device=torch.device("cpu"),
        fused=fused,
    )
    engine.state.qpos.copy_(torch.from_numpy(np.stack([qpos for qpos, _ in states])))
    engine.state.qvel.copy_(torch.from_numpy(np.stack([qvel for _, qvel in states])))
    engine.state.ctrl.copy_(torch.from_numpy(actions))
    engine.refresh()
    engine.step()
    observed = np.abs(WALKER.observe(engine.state).numpy() - seen).max(axis=1)
    rewarded = np.abs(WALKER.reward(engine.state).numpy() - rewards)
    assert np.median(observed) < 5e-5
    assert np.quantile(observed, 0.95) < 1e-3
    assert np.quantile(rewarded, 0.95) < 1e-5


def test_episodes_and_steps_are_as_long_as_the_suites():
    env = suite.load("walker", "walk")
    assert WALKER.control_step(MODEL) == pytest.approx(env.control_timestep())
    assert WALKER.horizon == 1000


def test_first_states_are_drawn_as_the_suite_draws_them():
    env = suite.load("walker", "walk", task_kwargs={"random": 0})
    theirs = []
    for _ in range(400):
        env.reset()
        theirs.append(env.physics.data.qpos.copy())
    theirs = np.array(theirs)
    ours = WALKER.reset(MODEL, torch.device("cpu"))(4000, torch.Generator().manual_seed(0))[
        "qpos"
    ].numpy()
    spread = MODEL.jnt_range[:, 1] - MODEL.jnt_range[:, 0]
    spread[2] = 2 * np.pi
    for joint in range(MODEL.nq):
        if joint < 2:  # where the torso is does not vary
            assert (ours[:, joint] == 0).all()
            assert (theirs[:, joint] == 0).all()
            continue
        # 400 draws: the mean of a uniform variable is off by at most 4 standard errors.
        tolerance = 4 * spread[joint] / np.sqrt(12) / np.sqrt(400)
        assert abs(ours[:, joint].mean() - theirs[:, joint].mean()) < tolerance
        assert abs(ours[:, joint].std() - theirs[:, joint].std()) < tolerance
        assert abs(ours[:, joint].min() - theirs[:, joint].min()) < 0.05 * spread[joint]
        assert abs(ours[:, joint].max() - theirs[:, joint].max()) < 0.05 * spread[joint]


def test_reward_by_hand():
    engine = CpuEngine(MODEL, 2, substeps=WALKER.substeps)
    # World 0 stands still: tall (1.3 m) and straight gives 1, standing still gives 1 of 6 parts.
    # World 1 lies at 0.6 m below the stand height on its side, moving at a metre a second:
    # standing 0.1 (its margin), straight 1/2, so (0.3 + 0.5)/4 = 0.2, times full speed.
    engine.state.qpos[1, 0] = -0.7
    engine.state.qpos[1, 2] = torch.pi / 2
    engine.state.qvel[1, 1] = 1.0
    engine.refresh()
    reward = WALKER.reward(engine.state)
    torch.testing.assert_close(
        reward, torch.tensor([1 / 6, 0.2], dtype=torch.float64), atol=1e-9, rtol=0
    )
    assert not success(engine.state).any()
    engine.state.qvel[0, 1] = 1.01
    engine.refresh()
    assert success(engine.state).tolist() == [True, False]
