"""The batch environment: episodes, seeds, saved states, bad input."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import pureward
from pureward.envs.sim.mujoco_cpu import CpuEngine
from pureward.envs.simulated import TaskEnv
from pureward.envs.tasks import TASKS
from pureward.errors import InputError, SimulationError


def steps(env, count: int, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield env.step(2.0 * torch.rand(env.worlds, env.action_size, generator=generator) - 1.0)


def test_an_ended_episode_restarts_and_keeps_its_last_observation():
    env = pureward.make("reach", 2, "cpu", cameras=True)
    *_, last = steps(env, env.horizon)
    assert last.truncated.all()
    assert last.final_obs is not last.obs
    assert (last.obs.state[:, 2:] == 0).all(), "a new episode starts at rest"
    assert (last.final_obs.state[:, 2:] != 0).any()
    assert not torch.equal(last.obs.frames, last.final_obs.frames)
    (following,) = steps(env, 1)
    assert not following.truncated.any()
    assert following.final_obs is following.obs


def test_observations_are_not_overwritten_by_later_steps():
    env = pureward.make("walker", 2, "cpu", cameras=True)
    first, second = steps(env, 2)
    again = pureward.make("walker", 2, "cpu", cameras=True)
    (repeated,) = steps(again, 1)
    assert torch.equal(first.obs.state, repeated.obs.state)
    assert torch.equal(first.obs.frames, repeated.obs.frames)
    assert not torch.equal(first.obs.state, second.obs.state)


def test_the_same_seed_gives_the_same_episodes():
    one, two, other = (pureward.make("walker", 3, "cpu", seed=seed) for seed in (5, 5, 6))
    assert torch.equal(one.reset().state, two.reset().state)
    assert not torch.equal(one.reset().state, other.reset().state)


def test_worlds_start_in_different_states():
    state = pureward.make("walker", 4, "cpu").reset().state
    assert len({tuple(row) for row in state.tolist()}) == 4


def test_staggered_worlds_end_at_different_times():
    env = pureward.make("reach", 40, "cpu", stagger=True)
    ends = torch.stack([step.truncated for step in steps(env, env.horizon)])
    assert (ends.sum(dim=0) == 1).all(), "each world ends once per horizon"
    assert ends.any(dim=1).sum() == 20, "in twenty groups"
    assert ends.sum(dim=1).max() == 2


def test_only_ended_worlds_are_reset():
    env = pureward.make("reach", 4, "cpu", stagger=True)
    for step in steps(env, env.horizon):
        if step.truncated.any():
            going = ~step.truncated
            assert torch.equal(step.obs.state[going], step.final_obs.state[going])
            assert (step.obs.state[step.truncated, 2:] == 0).all()


@pytest.mark.parametrize("engine", ["mujoco", "warp"])
def test_a_saved_env_continues_exactly(engine):
    env = pureward.make("walker", 3, "cpu", engine=engine, stagger=True, seed=3)
    list(steps(env, 30))
    saved = env.state_dict()
    expected = [step.obs.state for step in steps(env, 30, seed=1)]
    fresh = pureward.make("walker", 3, "cpu", engine=engine, stagger=True, seed=99)
    fresh.load_state_dict(saved)
    actual = [step.obs.state for step in steps(fresh, 30, seed=1)]
    assert torch.equal(torch.stack(expected), torch.stack(actual))


def test_a_restored_env_returns_the_same_observation():
    env = pureward.make("reach", 2, "cpu", cameras=True)
    *_, last = steps(env, 7)
    obs = pureward.make("reach", 2, "cpu", cameras=True, seed=9).load_state_dict(env.state_dict())
    assert torch.equal(obs.state, last.obs.state)
    assert torch.equal(obs.frames, last.obs.frames)


def test_actions_outside_the_range_are_clipped():
    one, two = (pureward.make("walker", 2, "cpu") for _ in range(2))
    far = one.step(torch.full((2, 6), 7.0))
    assert torch.equal(far.obs.state, two.step(torch.ones(2, 6)).obs.state)


def held_reach(hold: int) -> TaskEnv:
    """Reach, solved by x > 0 for this many consecutive steps."""
    task = replace(TASKS["reach"], hold=hold, success=lambda state: state.qpos[:, 0] > 0)
    engine = CpuEngine(task.build(), 2, substeps=task.substeps)
    env = TaskEnv(task, engine, None)
    engine.state.qpos[:] = torch.tensor([[0.1, 0.0], [-0.1, 0.0]])
    engine.refresh()
    return env


def test_success_must_be_held():
    env = held_reach(3)
    success = [env.step(torch.zeros(2, 2)).success.tolist() for _ in range(4)]
    assert success == [[False, False], [False, False], [True, False], [True, False]]
    env.engine.state.qpos[0, 0] = -0.1  # lost: counting starts again
    env.engine.refresh()
    assert not env.step(torch.zeros(2, 2)).success.any()
    env.engine.state.qpos[:, 0] = 0.1
    env.engine.refresh()
    success = [env.step(torch.zeros(2, 2)).success.tolist() for _ in range(3)]
    assert success == [[False, False], [False, False], [True, True]]
    env.reset()
    env.engine.state.qpos[:, 0] = 0.1
    env.engine.refresh()
    assert not env.step(torch.zeros(2, 2)).success.any(), "a new episode starts counting at 0"


def test_held_success_is_saved():
    env = held_reach(3)
    for _ in range(2):
        env.step(torch.zeros(2, 2))
    saved = env.state_dict()
    other = held_reach(3)
    other.load_state_dict(saved)
    assert other.step(torch.zeros(2, 2)).success.tolist() == [True, False]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "walk"}, "unknown task 'walk'; choose from"),
        ({"task": "Pendulum-v1"}, "choose from walker, .* Gymnasium environment gym:ID or MOD"),
        ({"worlds": 0}, "worlds must be a whole number from 1 to 1,048,576, got 0"),
        ({"worlds": -3}, "worlds must be a whole number .* got -3"),
        ({"worlds": 1.5}, "worlds must be a whole number .* got 1.5"),
        ({"worlds": True}, "worlds must be a whole number .* got True"),
        ({"worlds": "4"}, "worlds must be a whole number .* got '4'"),
        ({"worlds": 10**15}, "worlds must be .* got 1000000000000000; make several"),
        ({"device": "tpu"}, "unknown device 'tpu'; choose from"),
        ({"device": None}, "unknown device 'None'; choose from"),
        ({"device": "cuda:99"}, "device 'cuda:99' needs a CUDA GPU"),
        ({"device": "cuda:²"}, "device 'cuda:²' needs a CUDA GPU"),
        ({"engine": "bullet"}, "unknown engine 'bullet'; choose from"),
        ({"seed": 99999999999999999999}, "seed must lie between .* got 99999999999999999999"),
        ({"seed": None}, "seed must be a whole number, got"),
        ({"seed": 1.5}, "seed must be a whole number, got"),
        ({"seed": "1"}, "seed must be a whole number, got"),
    ],
)
def test_bad_arguments_are_rejected(changes, message):
    with pytest.raises(InputError, match=message):
        pureward.make(**({"task": "reach", "worlds": 1, "device": "cpu"} | changes))


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (torch.zeros(2), r"must have shape \(2, 2\).*got \(2,\)"),
        (np.zeros((2, 2)), "must be a tensor .* got ndarray; wrap them in"),
        (torch.zeros(2, 2, device="meta"), "environment's device, cpu, got meta; move them"),
    ],
)
def test_bad_actions_are_rejected(action, message):
    with pytest.raises(InputError, match=message):
        pureward.make("reach", 2, "cpu").step(action)


def test_the_device_may_be_a_torch_device():
    assert pureward.make("reach", 1, torch.device("cpu")).device == torch.device("cpu")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_actions_are_rejected_and_leave_the_state_unchanged(bad):
    env, twin = (pureward.make("walker", 2, "cpu") for _ in range(2))
    action = torch.zeros(2, 6)
    action[1, 3] = bad
    with pytest.raises(InputError, match="actions must be finite"):
        env.step(action)
    fine = torch.zeros(2, 6)
    assert torch.equal(env.step(fine).obs.state, twin.step(fine).obs.state)


def test_a_diverged_world_continues_as_its_neighbour():
    env = pureward.make("walker", 3, "cpu", engine="warp")
    env.engine.state.qpos[1] = float("nan")
    step = env.step(torch.zeros(3, 6))
    assert step.terminated.tolist() == [False, True, False]
    assert step.reward[1] == 0
    assert step.final_obs.state.isfinite().all()
    assert torch.equal(step.obs.state, env.task.observe(env.engine.state).float())
    assert env.diverged == 1
    step = env.step(torch.zeros(3, 6))
    assert not step.terminated.any()
    assert torch.equal(step.obs.state[1], step.obs.state[2]), "same state, same action"
    assert not torch.equal(step.obs.state[0], step.obs.state[1])
    env.check()


def test_frequent_divergence_is_an_error():
    env = pureward.make("walker", 3, "cpu", engine="warp")
    for _ in range(5):
        env.engine.state.qvel[1:] = 1e20
        env.step(torch.zeros(3, 6))
    with pytest.raises(SimulationError, match="10 worlds diverged in 15 steps, at most one in"):
        env.check()
    env.check()  # raised once


@pytest.mark.parametrize(("diverged", "rate"), [(9, 1e-5), (12, 0.8)])
def test_rare_divergence_is_not_an_error(monkeypatch, diverged, rate):
    monkeypatch.setattr("pureward.envs.divergence._MAX_RATE", rate)
    env = pureward.make("walker", 4, "cpu", engine="warp")
    for _ in range(diverged // 3):
        env.engine.state.qvel[1:] = 1e20
        env.step(torch.zeros(4, 6))
    env.check()
    assert env.diverged == diverged


def test_mujoco_warnings_are_errors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its warning to a log file here
    env = pureward.make("walker", 2, "cpu")
    env.engine.state.qpos[0] = float("nan")
    env.step(torch.zeros(2, 6))
    with pytest.raises(SimulationError, match="walker: .* 1 of 2 worlds"):
        env.check()


def test_gradients_do_not_enter_the_simulation():
    env, policy = pureward.make("reach", 2, "cpu"), torch.nn.Linear(4, 2)
    step = env.step(policy(env.reset().state))
    assert not env.engine.state.ctrl.requires_grad
    assert not step.obs.state.requires_grad


def test_reset_clears_a_bad_action_that_is_reported_late():
    env = pureward.make("reach", 2, "cpu")
    env._bad_actions._cuda = True  # as on CUDA, where the flag stays up
    with pytest.raises(InputError, match="actions must be finite"):
        env.step(torch.full((2, 2), float("nan")))
    with pytest.raises(InputError, match="actions must be finite"):
        env.step(torch.zeros(2, 2))
    env.reset()
    env.step(torch.zeros(2, 2))


def test_seeds_may_be_numpy_integers():
    one, two = (pureward.make("reach", 1, "cpu", seed=seed) for seed in (3, np.int64(3)))
    assert torch.equal(one.reset().state, two.reset().state)


def own_env(model=None, **changes) -> TaskEnv:
    task = replace(TASKS["reach"], **changes)
    return TaskEnv(task, CpuEngine(model or task.build(), 2, substeps=task.substeps), None)


def test_an_error_is_raised_if_all_worlds_diverge():
    env = own_env(observe=lambda state: 1e6 + state.qpos, horizon=3)
    assert env.step(torch.zeros(2, 2)).terminated.all()
    env.step(torch.zeros(2, 2))
    with pytest.raises(SimulationError, match="all 2 worlds diverged"):
        env.step(torch.zeros(2, 2))


def test_an_actuator_without_a_range_is_named():
    model = TASKS["reach"].build()
    model.actuator_ctrlrange[1] = 0.0
    with pytest.raises(InputError, match=r"actuator 1 \('.*'\) has none; give it one"):
        own_env(model)


@pytest.mark.parametrize("name", ["reward", "success"])
def test_a_task_s_function_of_a_wrong_shape_is_named(name):
    with pytest.raises(InputError, match=rf"{name} must have shape \(2,\).* got \(2, 2\)"):
        own_env(**{name: lambda state: state.qpos > 0})


def test_a_task_s_reset_of_an_unknown_field_is_named():
    with pytest.raises(InputError, match=r"must return fields of the state, got \['qpo'\]; choose"):
        own_env(reset=lambda model, device: lambda worlds, _: {"qpo": torch.zeros(worlds, 2)})
