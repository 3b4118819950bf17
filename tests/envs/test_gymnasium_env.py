"""Gymnasium environments as a batch of worlds, at the ends of their episodes above all."""

from typing import ClassVar

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from pureward.cli import main
from pureward.envs.gymnasium_env import GymnasiumEnv
from pureward.envs.makers import find_maker
from pureward.errors import InputError, SimulationError
from pureward.offline.check import check
from pureward.pixels import to_frames

CPU = torch.device("cpu")


class Counter(gymnasium.Env):
    """Its state is (episode, step); world by world it ends after a number of steps of its own."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 20}
    observation_space = spaces.Box(-1e6, 1e6, (2,), np.float64)
    action_space = spaces.Box(np.array([0.0, -2.0]), np.array([1.0, 4.0]), dtype=np.float64)
    made = 0

    def __init__(self, render_mode=None, spoil=""):
        self.ends, self.spoil, self.render_mode = 2 + Counter.made, spoil, render_mode
        Counter.made += 1
        if spoil == "unbounded":
            self.action_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.episode, self.count = -1, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.count = self.episode + 1, 0
        return np.array([self.episode, 0.0]), {}

    def step(self, action):
        if self.spoil == "raise" and self.count == 1:
            raise RuntimeError("the motor is too hot")
        self.count, self.action = self.count + 1, action
        state = np.array([self.episode, self.count], dtype=float)
        if self.spoil == "nan" and self.count == 1:
            state[0] = np.nan
        ended = self.count == self.ends
        return state, float(self.count), ended, False, {"is_success": ended}

    def render(self):
        if self.spoil in ("dark", "bright"):
            later = np.nan if self.spoil == "dark" else 200.0
            return np.full((64, 64, 3), later if self.count else 0.5)
        side = 80 if self.spoil == "grow" and self.count else 64
        return np.full((side, side, 3), 10 * self.episode + self.count, np.uint8)


def worlds(number: int = 2, spoil: str = "", **options) -> GymnasiumEnv:
    Counter.made = 0
    return GymnasiumEnv(
        "counter", lambda **made: Counter(spoil=spoil, **made), worlds=number, device=CPU, **options
    )


def test_the_arrival_frame_of_an_ended_episode_is_seen():
    env = worlds(cameras=True)
    env.reset()  # making it began episode 0
    action = torch.zeros(2, 2)
    env.step(action)
    step = env.step(action)  # world 0 ends after two steps, world 1 after three
    assert step.terminated.tolist() == [True, False]
    assert step.success.tolist() == [True, False]
    assert step.final_obs.state.tolist() == [[1, 2], [1, 2]]
    assert step.obs.state.tolist() == [[2, 0], [1, 2]]
    assert step.final_obs.frames is not None
    assert step.obs.frames is not None
    assert step.final_obs.frames[:, 0, 0, 0].tolist() == [12, 12]
    assert step.obs.frames[:, 0, 0, 0].tolist() == [20, 12]
    assert env.elapsed.tolist() == [0, 2]
    step = env.step(action)
    assert step.terminated.tolist() == [False, True]
    assert step.reward.tolist() == [1.0, 3.0]


def test_a_time_limit_truncates_and_a_terminal_state_does_not():
    env = worlds(1)
    env.horizon = 1
    step = env.step(torch.zeros(1, 2))
    assert (step.terminated.tolist(), step.truncated.tolist()) == ([False], [True])
    env = worlds(1)
    env.horizon = 2
    env.step(torch.zeros(1, 2))
    step = env.step(torch.zeros(1, 2))
    assert (step.terminated.tolist(), step.truncated.tolist()) == ([True], [False])


def test_actions_span_the_bounds():
    env = worlds(1)
    env.step(torch.tensor([[-1.0, 2.0]]))
    assert env._envs.envs[0].action.tolist() == [0.0, 4.0]
    with pytest.raises(InputError, match=r"shape \(1, 2\) .* got \(1, 3\)"):
        env.step(torch.zeros(1, 3))
    with pytest.raises(InputError, match="must be a tensor .* got ndarray"):
        env.step(np.zeros((1, 2)))
    with pytest.raises(InputError, match="actions must be finite, got NaN or infinity; check the"):
        env.step(torch.tensor([[0.0, torch.nan]]))


def test_processes_give_the_same():
    one, other = worlds(1, cameras=True), worlds(1, cameras=True, processes=True)
    for env in (one, other):
        env.seed(3)
    for env in (one, other):
        env.reset()
    ours, theirs = one.step(torch.zeros(1, 2)), other.step(torch.zeros(1, 2))
    assert torch.equal(ours.final_obs.state[:, 1], theirs.final_obs.state[:, 1])
    other.close()


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        ("nan", "counter returned a state with NaN"),
        (
            "raise",
            "counter could not step .RuntimeError: the motor is too hot.; try it alone with "
            r"gymnasium.utils.env_checker.check_env, and see line \d+ of .*test_gymnasium_env.py",
        ),
        ("grow", r"changed the size of its frames from .*64.* to .*80"),
        ("dark", "counter: images must be numbers, got NaN in image 0"),
        ("bright", "got 200 to 200; scale them to that range"),
    ],
)
def test_what_goes_wrong_in_it_is_told_in_a_sentence(spoil, told):
    env = worlds(1, spoil=spoil, cameras=True)
    with pytest.raises((InputError, SimulationError), match=told):
        for _ in range(2):
            env.step(torch.zeros(1, 2))


def test_what_cannot_be_trained_is_refused():
    made = {"worlds": 1, "device": CPU}
    with pytest.raises(InputError, match=r"actions must be continuous .* Discrete\(2\)"):
        GymnasiumEnv("gym:CartPole-v1", find_maker("gym:CartPole-v1"), **made)
    with pytest.raises(InputError, match=r"finite bounds, and .* \(2,\), float64\); bound its"):
        worlds(1, spoil="unbounded")
    with pytest.raises(InputError, match="keys are chosen from a dict observation"):
        worlds(1, cameras=True, frames="pixels")
    with pytest.raises(InputError, match="an environment is a task, gym:ID or MODULE:FUNCTION"):
        find_maker("no_such_module:make")


@pytest.mark.filterwarnings("ignore:.*Using the latest versioned environment")
@pytest.mark.parametrize("name", ["Pendulum-v1", "Pendulum", "gymnasium:Pendulum-v1"])
def test_an_id_may_have_a_module_and_lack_its_version(name):
    assert isinstance(find_maker(f"gym:{name}")(), gymnasium.Env)


class Keyed(gymnasium.Env):
    """A dict observation with two cameras."""

    observation_space = spaces.Dict(
        {
            "arm": spaces.Box(-1, 1, (2,)),
            "goal": spaces.Box(-1, 1, (1,)),
            "left": spaces.Box(0, 255, (32, 48, 3), np.uint8),
            "right": spaces.Box(0, 255, (32, 48), np.uint8),
        }
    )
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action):
        return self._seen(), 0.0, False, False, {}

    def _seen(self):
        left, right = np.full((32, 48, 3), 50, np.uint8), np.full((32, 48), 200, np.uint8)
        arm, goal = np.float32([0.1, 0.2]), np.float32([0.3])
        return {"arm": arm, "goal": goal, "left": left, "right": right}


def test_keys_of_a_dict_are_states_and_cameras():
    env = GymnasiumEnv(
        "keyed", Keyed, worlds=2, device=CPU, cameras=True, frames="left,right", state="arm"
    )
    assert env.frame_shape == (6, 64, 64)
    seen = env.reset()
    assert seen.state.tolist() == [pytest.approx([0.1, 0.2])] * 2
    assert seen.frames is not None
    assert seen.frames[0, :, 5, 5].tolist() == [50, 50, 50, 200, 200, 200]
    both = GymnasiumEnv("keyed", Keyed, worlds=1, device=CPU, cameras=True, frames="left,right")
    assert both.state_size == 3
    with pytest.raises(InputError, match="observes arm, goal, left, right, got 'above'"):
        GymnasiumEnv("keyed", Keyed, worlds=1, device=CPU, cameras=True, frames="above")


class Rendered(Keyed):
    """Takes render_mode, but cannot render."""

    def __init__(self, render_mode=None):
        self.render_mode = render_mode


@pytest.mark.parametrize("kind", [Keyed, lambda: Keyed(), Rendered])
def test_images_of_the_observation_are_named_where_there_is_nothing_to_render(kind):
    with pytest.raises(SimulationError, match="name them with --frames left,right, or in Python"):
        GymnasiumEnv("keyed", kind, worlds=1, device=CPU, cameras=True)


def test_show_takes_frames_of_the_observation(tmp_path):
    given = ["--frames", "left,right", "--worlds", "1", "--steps", "2", "--out", str(tmp_path)]
    main(["show", f"{__name__}:Keyed", *given])
    assert (tmp_path / f"{__name__}-Keyed.mp4").exists()


def test_check_takes_frames_of_the_observation():
    env = GymnasiumEnv("keyed", Keyed, worlds=1, device=CPU, cameras=True, frames="left,right")
    seen = env.reset().frames
    assert seen is not None
    data = [seen.expand(3, -1, -1, -1).contiguous()] * 12
    found = check(data, against=f"{__name__}:Keyed", frames="left,right")
    assert found.leak is not None
    assert not found.leak.found, "the data has the first frames of the environment"


def test_images_in_a_state_that_was_not_chosen_are_in_its_warning():
    def told(**options):
        return GymnasiumEnv("keyed", Keyed, worlds=1, device=CPU, **options).warning

    assert told() == (
        "the policy's state has 6,147 numbers, 6,144 of them of what looks like images, left, "
        "right; --state arm,goal leaves those out, --frames left,right gives them to the reward"
    )
    assert "--frames left,right gives" in told(cameras=True, frames="left")
    for chosen in ({"state": "arm,left"}, {"frames": "left,right"}):
        assert told(**chosen) == ""


def test_frames_are_no_part_of_the_state_also_if_they_are_not_used():
    made = {"worlds": 1, "device": CPU}
    assert GymnasiumEnv("keyed", Keyed, **made, frames="left,right").state_size == 3
    with pytest.raises(InputError, match="observes arm, goal, left, right, got 'above'"):
        GymnasiumEnv("keyed", Keyed, **made, frames="above")
    with pytest.raises(InputError, match="the policy needs a state, and keyed observes frames"):
        GymnasiumEnv("keyed", Keyed, **made, frames="arm,goal,left,right")


class Odd(Keyed):
    """One part of its observation, or all of it, is no array of numbers."""

    def __init__(self, odd):
        parts = {"arm": spaces.Box(-1, 1, (2,)), "odd": odd}
        self.observation_space = odd if isinstance(odd, spaces.Tuple) else spaces.Dict(parts)
        self.action_space = spaces.Box(-1, 1, (1,))

    def _seen(self):
        return self.observation_space.sample()


@pytest.mark.parametrize(
    ("space", "told"),
    [
        (spaces.Dict({"x": spaces.Box(-1, 1, (1,))}), r"'odd' of odd is Dict\(.*FlattenObs"),
        (spaces.Text(5), r"'odd' of odd is Text\("),
        (spaces.Tuple([spaces.Discrete(2)] * 2), r"its observation of odd is Tuple\("),
    ],
)
def test_a_state_that_is_no_array_of_numbers_is_told_in_a_sentence(space, told):
    with pytest.raises(InputError, match=f"a state must be arrays of numbers, and {told}"):
        GymnasiumEnv("odd", lambda: Odd(space), worlds=1, device=CPU)
    if not isinstance(space, spaces.Tuple):
        env = GymnasiumEnv("odd", lambda: Odd(space), worlds=1, device=CPU, state="arm")
        assert env.state_size == 2


def test_whole_numbers_of_an_action_are_rounded():
    env = GymnasiumEnv("counter", lambda: Whole(), worlds=1, device=CPU)
    taken = []
    for share in (-1.0, -0.4, 0.3, 0.7):
        env.step(torch.tensor([[share]]))
        taken.append(env._envs.envs[0].action.tolist())
    assert taken == [[-3], [-1], [1], [2]]


class Whole(Counter):
    action_space = spaces.Box(-3, 3, (1,), np.int32)

    def __init__(self):
        super().__init__()
        self.ends = 9


@pytest.mark.parametrize("shape", [(2, 64, 64, 3), (2, 3, 64, 64), (2, 64, 64), (2, 64, 64, 4)])
def test_frames_of_any_layout_become_rgb(shape):
    images = np.full(shape, 7, np.uint8)
    frames = to_frames(images, CPU)
    assert frames.shape == (2, 3, 64, 64)
    assert (frames == 7).all()


def test_frames_are_resized_by_area_and_floats_scaled():
    checks = np.indices((1, 256, 256)).sum(axis=0) % 2  # averages to grey, however it is aligned
    frames = to_frames(checks.astype(np.float32), CPU)
    assert (frames.float().mean() - 127.5).abs() < 2
    assert frames.float().std() < 30
    for wrong in (np.zeros((2, 2), np.uint8), np.zeros((1, 64, 64, 5), np.uint8)):
        with pytest.raises(InputError, match="frames must"):
            to_frames(wrong, CPU)
    with pytest.raises(InputError, match="uint8 or floating point"):
        to_frames(np.zeros((1, 64, 64, 3), np.int32), CPU)
