"""Worlds in threads: they step at the same time, and as worlds that step in turn would."""

import threading

import numpy as np
import pytest
import torch

import pureward
from point_env import PointEnv
from pureward.distributed.threads import ThreadVectorEnv
from pureward.errors import SimulationError

WORLDS = 3


class Together(PointEnv):
    """Each call waits until all worlds make it; all calls of a world are in one thread."""

    barrier = threading.Barrier(WORLDS, timeout=60.0)

    def __init__(self, render_mode=None):
        super().__init__(render_mode)
        self.thread = threading.get_ident()

    def reset(self, *, seed=None, options=None):
        self.meet()
        return super().reset(seed=seed)

    def step(self, action):
        self.meet()
        return super().step(action)

    def render(self):
        self.meet()
        return super().render()

    def close(self):
        assert threading.get_ident() == self.thread

    def meet(self):
        assert threading.get_ident() == self.thread
        self.barrier.wait()


class Broken(PointEnv):
    def step(self, action):
        raise ValueError("the cable is loose")


def in_threads(env):
    def make(num_envs, render_mode=None):
        return ThreadVectorEnv([lambda: env(render_mode)] * num_envs)

    return make


def test_worlds_make_their_calls_at_the_same_time_each_in_its_thread():
    envs = ThreadVectorEnv([lambda: Together("rgb_array")] * WORLDS)
    seen, _ = envs.reset(seed=5)
    assert len({tuple(row) for row in seen.tolist()}) == WORLDS, "each world has its seed"
    envs.step(np.zeros((WORLDS, 1), np.float32))
    assert len(envs.render()) == WORLDS
    assert len({env.unwrapped.thread for env in envs.envs}) == WORLDS
    envs.close()


def test_steps_are_those_of_worlds_in_turn():
    options = {"device": "cpu", "seed": 3, "cameras": True}
    with (
        pureward.make(PointEnv, WORLDS, **options) as turns,
        pureward.make(in_threads(PointEnv), WORLDS, **options) as threads,
    ):
        assert torch.equal(turns.reset().state, threads.reset().state)
        generator = torch.Generator().manual_seed(0)
        ended = 0
        for _ in range(30):
            action = 2.0 * torch.rand(WORLDS, 1, generator=generator) - 1.0
            one, other = turns.step(action), threads.step(action)
            for name in ("reward", "terminated", "truncated", "success"):
                assert torch.equal(getattr(one, name), getattr(other, name))
            for seen, expected in ((other.obs, one.obs), (other.final_obs, one.final_obs)):
                assert torch.equal(seen.state, expected.state)
                assert torch.equal(seen.frames, expected.frames)
            ended += int((one.terminated | one.truncated).sum())
        assert ended > WORLDS, "worlds were reset one by one"


class Counts(PointEnv):
    """Its state is the number of its steps."""

    fails = False

    def step(self, action):
        super().step(action)
        if self.fails and self.steps == 1:
            raise ValueError("once")
        return np.float32([self.steps]), 0.0, False, False, {}


class FailsOnce(Counts):
    fails = True


def test_results_that_nobody_waited_for_are_not_those_of_the_next_call():
    envs = ThreadVectorEnv([FailsOnce] + [Counts] * (WORLDS - 1))
    envs.reset(seed=0)
    action = np.zeros((WORLDS, 1), np.float32)
    with pytest.raises(ValueError, match="once"):
        envs.step(action)
    assert envs.step(action)[0].tolist() == [[2.0]] * WORLDS
    envs.close()


def test_an_error_in_a_world_is_one_sentence():
    with (
        pureward.make(in_threads(Broken), WORLDS, device="cpu") as env,
        pytest.raises(SimulationError, match="could not step .*the cable is loose") as found,
    ):
        env.reset()
        env.step(torch.zeros(WORLDS, 1))
    assert "\n" not in str(found.value)
