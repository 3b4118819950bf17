"""Evaluation: returns and successes of whole episodes, hand-computed."""

from dataclasses import replace

import pytest
import torch

import pureward
from pureward.training.evaluate import HOLD, Evaluation, evaluate


def home(state):
    return -4.0 * state[:, :2] - state[:, 2:]


def test_a_good_policy_solves_reach_and_a_lazy_one_does_not():
    env = pureward.make("reach", 8, "cpu")
    good = evaluate(env, home, seed=0)
    lazy = evaluate(env, lambda state: torch.zeros(len(state), 2), seed=0)
    assert good.solved.all()
    assert not lazy.solved.all()
    assert good.summary()["return"] > lazy.summary()["return"] + 10


def test_the_same_seed_gives_the_same_returns_whatever_ran_before():
    env = pureward.make("reach", 4, "cpu")
    first = evaluate(env, home, seed=3)
    evaluate(env, home, seed=4)
    again = evaluate(env, home, seed=3)
    assert torch.equal(first.returns, again.returns)


def test_reward_error_adds_the_zero_of_the_reward():
    """A gate adds 1 to every reward where the lowest annotated one is −1."""
    result = Evaluation(
        returns=torch.tensor([-5.0, -4.0]),
        solved=torch.tensor([False, False]),
        steps=torch.tensor([10.0]),
        learned=torch.tensor([5.0, 7.0]),
    )
    assert result.reward_error(-1.0) == {"reward_error": 0.5, "reward_error_abs": 0.5}
    assert result.reward_error()["reward_error"] == 10.5


def test_summary_by_hand():
    result = Evaluation(
        returns=torch.tensor([1.0, 2.0, 3.0, 6.0]),
        solved=torch.tensor([True, False, True, True]),
        steps=torch.tensor([1.0]),
    )
    summary = result.summary()
    assert summary["return"] == 3.0
    # The sample variance is (4 + 1 + 0 + 9)/3, four episodes halve the deviation, and Student's t
    # of three degrees of freedom is 3.18245.
    assert summary["return_ci95"] == pytest.approx(3.18245 * (14 / 3) ** 0.5 / 2, rel=1e-5)
    assert (summary["return_min"], summary["return_max"], summary["success"]) == (1.0, 6.0, 0.75)


def test_success_must_last(monkeypatch):
    env = pureward.make("reach", 2, "cpu")
    steps = iter(range(10**6))

    def flicker(state):
        """World 0 is solved for HOLD − 1 steps at a time, world 1 for HOLD."""
        index = next(steps) % (HOLD + 1)
        return torch.tensor([index < HOLD - 1, index < HOLD])

    monkeypatch.setattr(env, "task", replace(env.task, success=flicker))
    assert evaluate(env, home, seed=0).solved.tolist() == [False, True]


def test_an_episode_that_terminates_in_success_is_solved():
    """A point moves by 0.3 a step and ends in the middle, or after ten steps elsewhere."""
    env = pureward.make("point_env:PointEnv", 8, "cpu")
    assert evaluate(env, lambda state: -3.0 * state, seed=0).solved.all()
    assert not evaluate(env, lambda state: state.sign(), seed=0).solved.any()


@pytest.mark.parametrize(("hold", "first"), [(1, HOLD), (4, HOLD), (HOLD, HOLD), (12, 12)])
def test_the_hold_of_a_task_counts_towards_the_hold_of_an_evaluation(monkeypatch, hold, first):
    env = pureward.make("reach", 16, "cpu")
    steps = iter(range(10**6))

    def rising(state):
        """World i is in a state of success for i steps, once."""
        return torch.full((16,), next(steps)) < torch.arange(16)

    monkeypatch.setattr(env, "task", replace(env.task, success=rising))
    monkeypatch.setattr(env, "hold", hold)
    solved = evaluate(env, home, seed=0).solved
    assert solved.tolist() == [steps >= first for steps in range(16)]


@pytest.mark.parametrize("episodes", [0, "3"])
def test_the_number_of_episodes_is_checked_before_the_run_is_read(tmp_path, episodes):
    sentence = f"episodes must be a whole number from 1, got {episodes!r}; try 100"
    with pytest.raises(pureward.InputError, match=sentence):
        pureward.evaluate(tmp_path, episodes=episodes)
