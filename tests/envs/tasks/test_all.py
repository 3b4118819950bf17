"""Tests of every task on every engine."""

import pytest
import torch

import pureward
from pureward.envs.tasks import TASKS
from pureward.envs.tasks.suite import gaussian, linear
from pureward.gym import TASK_NAMES

ENGINES = ("mujoco", "warp")


def test_gymnasium_knows_every_task():
    assert set(TASK_NAMES) == set(TASKS) == set(pureward.TASKS)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", TASKS)
def test_an_episode(name, engine):
    env = pureward.make(name, 3, "cpu", engine=engine, seed=1)
    generator = torch.Generator().manual_seed(0)
    steps = env.horizon if engine == "mujoco" or env.engine.fused else 20
    for index in range(steps):
        action = 2.0 * torch.rand(3, env.action_size, generator=generator) - 1.0
        step = env.step(action)
        assert step.obs.state.shape == (3, env.state_size)
        assert step.obs.state.dtype == step.reward.dtype == torch.float32
        assert step.obs.frames is None
        assert torch.isfinite(step.final_obs.state).all()
        assert ((step.reward >= 0) & (step.reward <= 1)).all()
        assert not step.terminated.any()
        assert step.truncated.all() == (index == env.horizon - 1)
    env.check()


@pytest.mark.parametrize("name", TASKS)
def test_engines_agree_on_the_first_steps(name):
    envs = [pureward.make(name, 4, "cpu", engine=engine, cameras=True) for engine in ENGINES]
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        action = 2.0 * torch.rand(4, envs[0].action_size, generator=generator) - 1.0
        c, warp = (env.step(action) for env in envs)
        torch.testing.assert_close(c.obs.state, warp.obs.state, atol=1e-3, rtol=0)
        torch.testing.assert_close(c.reward, warp.reward, atol=1e-4, rtol=0)
        assert ((c.obs.frames.int() - warp.obs.frames.int()).abs() > 8).float().mean() < 0.005


def test_a_linear_controller_solves_reach():
    env = pureward.make("reach", 16, "cpu")
    obs = env.reset()
    for _ in range(env.horizon - 1):
        step = env.step(-4.0 * obs.state[:, :2] - obs.state[:, 2:])
        obs = step.obs
    assert step.success.all()
    assert (step.reward > 0.99).all()


def test_reach_reward_by_hand():
    env = pureward.make("reach", 2, "cpu")
    state = env.engine.state
    # A whole margin (0.29) away the reward is 0.1, on the target's rim (0.05) 0.1^(0.05/0.29)^2.
    state.qpos[:] = torch.tensor([[0.03, 0.04], [0.29, 0.0]], dtype=torch.float64)
    env.engine.refresh()
    reward = env.task.reward(state)
    expected = torch.tensor([0.1 ** (0.05 / 0.29) ** 2, 0.1], dtype=torch.float64)
    torch.testing.assert_close(reward, expected, atol=1e-9, rtol=0)
    assert env.task.success(state).tolist() == [True, False]


def test_shapes_by_hand():
    distance = torch.tensor([-1.0, 0.0, 1.0, 2.0, 4.0], dtype=torch.float64)
    expected = torch.tensor([1.0, 1.0, 0.1**0.25, 0.1, 0.1**4], dtype=torch.float64)
    torch.testing.assert_close(gaussian(distance, margin=2.0), expected)
    expected = torch.tensor([1.0, 1.0, 0.75, 0.5, 0.0], dtype=torch.float64)
    torch.testing.assert_close(linear(distance, margin=2.0, at_margin=0.5), expected)


def test_an_unknown_task_lists_the_known_ones():
    with pytest.raises(pureward.InputError, match="unknown task 'run'; choose from walker, reach"):
        TASKS["run"]


def test_a_missing_dm_control_is_told(monkeypatch):
    monkeypatch.setattr("pureward.envs.tasks.suite.find_spec", lambda name: None)
    with pytest.raises(pureward.InputError, match="pip install --no-deps dm-control"):
        TASKS["reach"].build()
