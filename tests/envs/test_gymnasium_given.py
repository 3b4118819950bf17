"""Environments that a user passes: vector environments in every autoreset mode, and objects."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import TimeLimit

import pureward
from pureward.envs.gymnasium_env import GymnasiumEnv
from pureward.envs.makers import name_of
from pureward.errors import InputError, SimulationError

MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]


class Clock(gymnasium.Env):
    """Observes (episode, step); the image is filled with 10 · episode + step, the reward is step.

    The episode ends after `ends` steps, in a terminal state of success or by time.
    """

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 20}
    observation_space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (64, 64, 3), np.uint8),
            "time": spaces.Box(0, 100, (2,), np.float32),
        }
    )
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, render_mode=None, *, ends=0, terminates=True):
        self.render_mode, self.ends, self.terminates = render_mode, ends, terminates
        self.episode, self.count = -1, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.count = self.episode + 1, 0
        return self._seen(), {}

    def step(self, action):
        self.count += 1
        over = self.count == self.ends
        done, cut = over and self.terminates, over and not self.terminates
        return self._seen(), float(self.count), done, cut, {"is_success": done}

    def render(self):
        return np.full((64, 64, 3), 10 * self.episode + self.count, np.uint8)

    def _seen(self):
        time = np.array([self.episode, self.count], np.float32)
        return {"image": self.render(), "time": time}


def two_clocks(mode, kind: Callable[..., VectorEnv] = SyncVectorEnv):
    """World 0 terminates after two steps; world 1 is truncated after three."""

    def make_clocks(num_envs, render_mode=None):
        assert num_envs == 2
        makers = [partial(Clock, render_mode, ends=2 + i, terminates=i == 0) for i in range(2)]
        return kind(makers, autoreset_mode=mode)

    return make_clocks


#: By hand, for each of five steps: (episode, step) on arrival and of the next observation, rewards,
#: terminated and truncated. Episode 0 began when the worlds were made.
STEPS = [
    ([(1, 1), (1, 1)], [(1, 1), (1, 1)], [1, 1], [False, False], [False, False]),
    ([(1, 2), (1, 2)], [(2, 0), (1, 2)], [2, 2], [True, False], [False, False]),
    ([(2, 1), (1, 3)], [(2, 1), (2, 0)], [1, 3], [False, False], [False, True]),
    ([(2, 2), (2, 1)], [(3, 0), (2, 1)], [2, 1], [True, False], [False, False]),
    ([(3, 1), (2, 2)], [(3, 1), (2, 2)], [1, 2], [False, False], [False, False]),
]


@pytest.mark.parametrize(
    ("kind", "frames", "mode"),
    [
        *[(SyncVectorEnv, "image", mode) for mode in MODES],
        *[(AsyncVectorEnv, "image", mode) for mode in MODES],
        (SyncVectorEnv, "render", AutoresetMode.NEXT_STEP),
        (SyncVectorEnv, "render", AutoresetMode.DISABLED),
    ],
)
def test_a_vector_environment_arrives_and_ends_alike_in_every_mode(kind, frames, mode):
    options = {"cameras": True, "frames": frames, "state": "time"}
    with pureward.make(two_clocks(mode, kind), 2, "cpu", **options) as env:
        env.reset()
        for arrivals, following, rewards, terminated, truncated in STEPS:
            step = env.step(torch.zeros(2, 1))
            assert step.reward.tolist() == rewards
            assert step.terminated.tolist() == step.success.tolist() == terminated
            assert step.truncated.tolist() == truncated
            for seen, expected in ((step.final_obs, arrivals), (step.obs, following)):
                assert seen.state.tolist() == [list(time) for time in expected]
                assert seen.frames is not None
                pixels = [10 * episode + count for episode, count in expected]
                assert seen.frames[:, 0, 0, 0].tolist() == pixels
        assert env.elapsed.tolist() == [1, 2]


@pytest.mark.parametrize("mode", MODES)
def test_an_environment_without_a_limit_is_cut_by_ours(mode):
    def endless(num_envs, render_mode=None):
        return SyncVectorEnv([Clock] * num_envs, autoreset_mode=mode)

    with pureward.make(endless, 1, "cpu", state="time") as env:
        assert env.horizon == 1000
        env.horizon = 2
        env.step(torch.zeros(1, 1))
        step = env.step(torch.zeros(1, 1))
        assert (step.terminated.tolist(), step.truncated.tolist()) == ([False], [True])
        assert (step.final_obs.state.tolist(), step.obs.state.tolist()) == ([[0, 2]], [[1, 0]])


class Together(VectorEnv):
    """A vector environment that resets all its worlds, whatever the mask."""

    single_observation_space = spaces.Box(0, 100, (1,), np.float32)
    single_action_space = Clock.action_space

    def __init__(self, num_envs, mode: AutoresetMode | None = AutoresetMode.NEXT_STEP):
        self.num_envs, self.metadata = num_envs, {"autoreset_mode": mode}
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed=None, options=None):
        self.count = np.zeros((self.num_envs, 1), np.float32)
        return self.count.copy(), {}

    def step(self, actions):
        self.count += 1
        first = np.arange(self.num_envs) == 0
        never = np.zeros(self.num_envs, bool)
        return self.count.copy(), np.zeros(self.num_envs), first, never, {}


class Reuses(Together):
    """A vector environment that returns the same arrays at every step."""

    metadata: ClassVar = {"render_fps": 20}

    def reset(self, *, seed=None, options=None):
        self.rewards, self.ended = (
            np.zeros(self.num_envs, np.float32),
            np.zeros(self.num_envs, bool),
        )
        return np.zeros((self.num_envs, 1), np.float32), {}

    def step(self, actions):
        self.rewards += 1
        self.ended[:] = self.rewards == 2
        return np.zeros((self.num_envs, 1)), self.rewards, self.ended, np.zeros_like(self.ended), {}


def test_a_step_keeps_its_values_if_the_environment_uses_its_arrays_again():
    env = pureward.make(Reuses, 2, "cpu")
    steps = [env.step(torch.zeros(2, 1)) for _ in range(2)]
    assert [step.reward.tolist() for step in steps] == [[1, 1], [2, 2]]
    assert [step.terminated.tolist() for step in steps] == [[False] * 2, [True] * 2]


class Frameless(Together):
    """Renders nothing, or one image for all worlds."""

    def __init__(self, num_envs, render_mode=None, images=None):
        super().__init__(num_envs, AutoresetMode.DISABLED)
        self.images = images

    def render(self):
        return self.images


@pytest.mark.parametrize(
    ("images", "told"),
    [
        (None, "rendered nothing; it must render with render_mode='rgb_array'"),
        ((np.zeros((64, 64, 3)), np.zeros((32, 64, 3))), "frames must have one size, got .*32"),
        (np.zeros((64, 64, 3), np.uint8), "must be a batch of images, got one of shape"),
    ],
)
def test_images_that_are_none_per_world_are_told_in_a_sentence(images, told):
    with pytest.raises(InputError, match=told):
        pureward.make(partial(Frameless, images=images), 2, "cpu", cameras=True)


def test_any_environment_with_frames_renders_as_a_vector_environment():
    env = pureward.make_vec(Clock, 2, device="cpu", cameras=True, state="time")
    assert env.render() is None, "nothing was observed yet"
    env.reset(seed=0)
    env.step(np.zeros((2, 1)))
    images = env.render()
    assert images is not None
    assert [image.shape for image in images] == [(64, 64, 3)] * 2
    assert [image[0, 0, 0] for image in images] == [11, 11]


class Tensors(Together):
    """A vector environment that returns tensors."""

    def reset(self, *, seed=None, options=None):
        return torch.zeros(self.num_envs, 1), {}


def test_vector_environments_that_cannot_be_used_are_told_in_a_sentence():
    with pytest.raises(InputError, match=r"numpy arrays, and .*Tensors returns tensors; implement"):
        pureward.make(Tensors, 2, "cpu")
    env = pureward.make(Together, 2, "cpu")
    with pytest.raises(SimulationError, match="must reset only the worlds of options"):
        env.step(torch.zeros(2, 1))
    with pytest.raises(InputError, match=r"must state metadata\['autoreset_mode'\], got None"):
        pureward.make(partial(Together, mode=None), 2, "cpu")
    with pytest.raises(InputError, match="got SAME_STEP, which resets before the last frame"):
        pureward.make(two_clocks(AutoresetMode.SAME_STEP), 2, "cpu", cameras=True)
    apart = partial(AsyncVectorEnv, shared_memory=False)
    with pytest.raises(InputError, match="without shared memory needs .* got NEXT_STEP"):
        pureward.make(two_clocks(AutoresetMode.NEXT_STEP, apart), 2, "cpu")
    with pytest.raises(InputError, match="must have num_envs worlds, 2, got 3"):
        pureward.make(lambda num_envs: Together(3), 2, "cpu")
    with pytest.raises(InputError, match="must return a gymnasium.Env, .* got Together"):
        pureward.make(lambda: Together(2), 2, "cpu")
    with pytest.raises(InputError, match="leave processes out, or return an AsyncVectorEnv"):
        pureward.make(Together, 2, "cpu", processes=True)
    with pytest.raises(InputError, match="vector environments of several sizes, got one of 2"):
        pureward.make(Together(2), 2, "cpu")  # pyright: ignore[reportArgumentType]


def test_the_time_limit_is_that_of_gymnasium():
    def in_processes(num_envs):
        return AsyncVectorEnv([partial(gymnasium.make, "Pendulum-v1")] * num_envs)

    for made, limit in (
        ("gym:Pendulum-v1", 200),
        (partial(gymnasium.make, "Pendulum-v1", max_episode_steps=7), 7),
        (lambda render_mode=None: TimeLimit(Clock(), 9), 9),
        (in_processes, 200),
    ):
        with pureward.make(made, 1, "cpu") as env:
            assert env.horizon == limit


def test_a_function_without_render_mode_makes_environments_that_render():
    with pureward.make(lambda: Clock("rgb_array"), 2, "cpu", cameras=True) as env:
        assert env.reset().frames.shape == (2, 3, 64, 64)
    with pytest.raises(SimulationError, match=r"no render_mode, .* has None.; .* --frames image"):
        pureward.make(lambda: Clock(), 1, "cpu", cameras=True)


def test_an_object_is_copied_for_every_world():
    heavy = gymnasium.make("Pendulum-v1", g=20.0)  # rendering would need pygame
    with pureward.make(heavy, 2, "cpu") as env:
        assert isinstance(env, GymnasiumEnv)
        gravities = [each.unwrapped.g for each in env._envs.envs]
        first = env.reset().state
    assert gravities == [20.0, 20.0]
    assert not torch.equal(first[0], first[1])
    assert pureward.preset(heavy).task.endswith("pendulum:PendulumEnv()")


def test_an_object_as_gymnasium_makes_it_has_the_name_of_its_id():
    plain = gymnasium.make("Pendulum-v1", render_mode="rgb_array")
    assert name_of(plain) == "gym:Pendulum-v1"
    assert name_of(gymnasium.make("Pendulum-v1", max_episode_steps=7)) != "gym:Pendulum-v1"


def test_objects_that_cannot_be_used_are_told_in_a_sentence():
    with pytest.raises(InputError, match=r"render_mode='rgb_array', and .* was made with None"):
        pureward.make(Clock(), 1, "cpu", cameras=True)
    holding = Clock()
    with open(__file__) as file, pytest.raises(InputError, match="cannot be .TypeError.*; pass a"):
        vars(holding)["file"] = file  # which cannot be copied
        pureward.make(holding, 1, "cpu")
    with pytest.raises(InputError, match="a name, a function or a gymnasium.Env, got 3"):
        pureward.make(3, 1, "cpu")  # pyright: ignore[reportArgumentType]
