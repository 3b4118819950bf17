"""Lift and stack: rewards and success by hand, and a script that solves both."""

import math
from itertools import pairwise

import pytest
import torch

import pureward
from operators import Operators
from pureward.envs.tasks import TASKS, lift, stack
from pureward.envs.tasks.jaco.objects import BANANA_RADIUS
from pureward.envs.tasks.jaco.state import BANANA, BLUE, HAND, PINCH_SITE, RED
from pureward.errors import InputError


def put(env, body: int, place: torch.Tensor, world: int = 0) -> None:
    model = env.engine.model
    at = model.jnt_qposadr[model.body_jntadr[body]]
    env.engine.state.qpos[world, at : at + 3] = place


def episode(name: str, worlds: int, seed: int = 0, count: int = 250, **options):
    """Rewards and successes (steps, worlds) under the script."""
    env = pureward.make(name, worlds, "cpu", seed=seed, **options)
    script = env.script()
    steps = [env.step(script()) for _ in range(count)]
    return (
        torch.stack([step.reward for step in steps]),
        torch.stack([step.success for step in steps]),
        env,
    )


def test_lift_reward_by_hand():
    """At the hand: 12 cm up, 6 cm up, 30 cm up; and lying 30 cm below the hand."""
    env = pureward.make("lift", 4, "cpu")
    state = env.engine.state
    height = torch.tensor([0.12, 0.06, 0.30, 0.0], dtype=torch.float64)
    below = torch.tensor([0.0, 0.0, 0.0, 0.3], dtype=torch.float64)
    state.xpos[:, BANANA, :2] = 0.05
    state.xpos[:, BANANA, 2] = BANANA_RADIUS + height
    state.site_xpos[:, PINCH_SITE] = state.xpos[:, BANANA]
    state.site_xpos[:, PINCH_SITE, 2] += below
    expected = torch.tensor([1.0, (1 + 3 * 0.5) / 4, 1.0, 0.1 / 4], dtype=torch.float64)
    torch.testing.assert_close(lift.reward(state), expected, atol=1e-9, rtol=0)
    assert lift.success(state).tolist() == [True, False, True, False]


def stacked(worlds: int = 1) -> pureward.BatchEnv:
    """Red on blue in the middle of the tray, fingers open, hand above."""
    env = pureward.make("stack", worlds, "cpu", seed=1)
    state = env.engine.state
    for world in range(worlds):
        put(env, BLUE, torch.tensor([0.0, 0.1, 0.025]), world)
        put(env, RED, torch.tensor([0.0, 0.1, 0.075]), world)
    state.qpos[:, HAND] = 0.3
    env.engine.refresh()
    return env


def test_stack_success_by_hand():
    env = stacked(6)
    state = env.engine.state
    put(env, RED, torch.tensor([0.02, 0.1, 0.075]), 1)  # aside, but on it
    put(env, RED, torch.tensor([0.03, 0.1, 0.075]), 2)  # more than half off
    put(env, RED, torch.tensor([0.0, 0.1, 0.085]), 3)  # in the air
    state.qpos[4, HAND] = 1.0  # the hand is not open
    env.engine.refresh()
    state.site_xpos[5, PINCH_SITE] = state.xpos[5, RED] + torch.tensor([0.0, 0.0, 0.05])  # nor away
    assert stack.success(state).tolist() == [True, True, False, False, False, False]


@pytest.mark.parametrize(
    ("aside", "above", "opened", "away", "solved"),
    [
        (0.0249, 0.0059, 0.849, 0.0801, True),
        (0.0249, -0.0059, 0.849, 0.0801, True),
        (0.0251, 0.0, 0.3, 0.2, False),
        (0.0, 0.0061, 0.3, 0.2, False),
        (0.0, -0.0061, 0.3, 0.2, False),
        (0.0, 0.0, 0.851, 0.2, False),
        (0.0, 0.0, 0.3, 0.0799, False),
    ],
)
def test_stack_success_at_its_edges(aside, above, opened, away, solved):
    state = stacked().engine.state
    state.xpos[0, RED] = state.xpos[0, BLUE] + torch.tensor(
        [0.6 * aside, 0.8 * aside, 0.05 + above]
    )
    state.site_xpos[0, PINCH_SITE] = state.xpos[0, RED] + torch.tensor([0.0, 0.0, away])
    state.qpos[0, HAND] = torch.tensor([opened, 0.3, 0.3], dtype=torch.float64)
    assert stack.success(state).tolist() == [solved]


def test_lift_success_at_its_edge():
    state = pureward.make("lift", 2, "cpu").engine.state
    state.xpos[:, BANANA, 2] = BANANA_RADIUS + torch.tensor([0.0999, 0.1001], dtype=torch.float64)
    assert lift.success(state).tolist() == [False, True]


def test_a_finished_stack_has_the_whole_reward_and_stays():
    env = stacked()
    assert stack.reward(env.engine.state).item() == pytest.approx(1.0, abs=1e-6)
    successes = [bool(env.step(torch.zeros(1, 9)).success) for _ in range(30)]
    assert successes == [False] * 9 + [True] * 21, "held for ten steps"
    assert stack.reward(env.engine.state).item() == pytest.approx(1.0, abs=1e-3)


def test_stack_rewards_come_in_stages():
    env = pureward.make("stack", 1, "cpu", seed=1)
    state = env.engine.state
    state.xpos[:, BLUE] = torch.tensor([0.0, 0.1, 0.025])

    def worth(red, hand, touch=0.0):
        state.xpos[:, RED] = torch.tensor(red)
        state.site_xpos[:, PINCH_SITE] = torch.tensor(hand)
        state.sensordata[:, 12:15] = touch
        state.qpos[:, HAND] = 1.0 if touch else 0.3
        return stack.reward(state).item()

    far = worth((0.0, -0.1, 0.025), (0.0, 0.0, 0.3))
    at = worth((0.0, -0.1, 0.025), (0.0, -0.1, 0.025))
    held = worth((0.0, -0.1, 0.025), (0.0, -0.1, 0.025), touch=10.0)
    lifted = worth((0.0, -0.1, 0.12), (0.0, -0.1, 0.12), touch=10.0)
    over = worth((0.0, 0.1, 0.12), (0.0, 0.1, 0.12), touch=10.0)
    on = worth((0.0, 0.1, 0.075), (0.0, 0.1, 0.075), touch=10.0)
    open_ = worth((0.0, 0.1, 0.075), (0.0, 0.1, 0.075))
    away = worth((0.0, 0.1, 0.075), (0.0, 0.1, 0.2))
    stages = [far, at, held, lifted, over, on, open_, away]
    steps = [b - a for a, b in pairwise(stages)]
    assert all(step > 0.05 for step in steps), stages
    assert at == pytest.approx(0.15, abs=0.01)
    assert held == pytest.approx(0.25, abs=0.01)
    assert away == pytest.approx(1.0, abs=1e-6)


def test_stack_reward_by_hand():
    """A Gaussian is 0.1 to the power of (distance/margin)². The goal is at (0, 0.1, 0.075).

    Worlds 0: a hand 30 cm above a block that lies. 1: a hand at one 2.5 cm up, 20 cm off its goal,
    pressed with 3 newtons by the thumb and 6 by one finger. 2: a block that stands, a hand half
    open and 4 cm away. 3: a block at its height, 3 cm aside, the hand open and 30 cm away.
    """
    env = pureward.make("stack", 4, "cpu", seed=1)
    state, double = env.engine.state, {"dtype": torch.float64}
    state.xpos[:, BLUE] = torch.tensor([0.0, 0.1, 0.025], **double)
    state.xpos[:, RED] = torch.tensor(
        [[0.0, -0.1, 0.025], [0.0, -0.1, 0.05], [0.0, 0.1, 0.075], [0.03, 0.1, 0.075]], **double
    )
    state.site_xpos[:, PINCH_SITE] = state.xpos[:, RED]
    state.site_xpos[:, PINCH_SITE, 2] += torch.tensor([0.3, 0.0, 0.04, 0.3], **double)
    state.sensordata[:, 12:15] = 0.0
    state.sensordata[1, 12:15] = torch.tensor([3.0, 0.0, 6.0], **double)
    state.qpos[:, HAND] = torch.tensor([[0.3], [1.25], [1.05], [0.3]], **double)
    near = 0.1 ** ((0.2**2 + 0.025**2) / 0.2**2)
    expected = [
        0.15 * 0.1,
        0.15 + 0.10 * math.tanh(1.0) + 0.15 * 0.5 + 0.30 * 0.5 * near,
        0.15 + 0.10 + 0.15 + 0.30 + 0.30 * 0.5,
        0.15 * 0.1 + 0.10 * 0.1 + 0.15 + 0.30 * 0.1 ** (0.03**2 / 0.2**2) + 0.30 * 0.1,
    ]
    assert stack.reward(state).tolist() == pytest.approx(expected, abs=1e-9)


def test_the_script_lifts():
    rewards, successes, env = episode("lift", 8, seed=11, count=160)
    assert successes[-1].all()
    assert (rewards[-1] > 0.97).all()
    assert not successes[:30].any()
    # From the grasp on, lifting never costs anything.
    assert (rewards[60:].diff(dim=0) > -0.01).all()
    assert (rewards[100] > rewards[40] + 0.3).all()
    env.check()


def test_the_script_lifts_among_cuboids():
    _, successes, _ = episode("lift", 8, seed=12, count=160, distractors="cuboid")
    assert successes[-1].float().mean() >= 0.75, "tall neighbours may be in the way"


def test_the_script_stacks():
    rewards, successes, env = episode("stack", 8, seed=13, count=260)
    assert successes[-1].all()
    assert (rewards[-1] > 0.9).all()
    # Averaged over worlds, each stage is worth more than the one before.
    stages = rewards.mean(dim=1)[[5, 60, 110, 200]]
    assert (stages.diff() > 0.1).all()
    env.check()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lift", "stack"])
@pytest.mark.parametrize("distractors", ["cube", "cuboid"])
def test_the_script_solves_the_tasks_from_many_resets(name, distractors):
    _, successes, _ = episode(name, 200, seed=14, count=399, distractors=distractors)
    assert successes[-1].float().mean() >= 0.95


@pytest.mark.parametrize("name", ["lift", "stack"])
def test_the_script_copies_nothing_from_or_to_the_host(name):
    """Otherwise it cannot be captured as a CUDA graph."""
    script = pureward.make(name, 2, "cpu").script()
    with Operators() as seen:
        script()
    assert "_linalg_solve_ex" in seen.names
    assert not seen.waiting


def test_a_task_without_a_script_raises():
    env = pureward.make("reach", 1, "cpu")
    with pytest.raises(InputError, match="reach has no script; leave out guided"):
        env.script()


def test_doing_nothing_has_a_low_reward():
    for name in ("lift", "stack"):
        env = pureward.make(name, 32, "cpu", seed=15)
        step = env.step(torch.zeros(32, 9))
        assert step.reward.mean() < 0.25, TASKS[name].summary
        assert not step.success.any()
