"""The replay ring against a naive one that keeps lists of episodes."""

import math
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pureward.data.replay.replay import Replay, ReplayConfig
from pureward.errors import InputError
from pureward.types import Observation, Step

GAMMA = 0.9
CONTINUES, TIME_LIMIT, TERMINAL = 0, 1, 2


@dataclass
class Episode:
    """One world's episode as lists; there is one more observation than steps."""

    seen: list[int]
    """A number that names each observation: its state, and the bytes of its frame."""
    rows: list[int] = field(default_factory=list)
    terminated: bool = False


class Naive:
    """A slow and simple replay to compare with."""

    def __init__(self, worlds: int):
        self.names = iter(range(1, 10**6))
        self.worlds = [[Episode([next(self.names)])] for _ in range(worlds)]
        self.rows = 0

    def step(self, ends: list[int]) -> tuple[list[int], list[int], list[int]]:
        """Names of what each world acts on, arrives at, and sees next."""
        before, arrived, after = [], [], []
        for world, end in zip(self.worlds, ends, strict=True):
            episode = world[-1]
            before.append(episode.seen[-1])
            episode.rows.append(self.rows)
            episode.seen.append(next(self.names))
            arrived.append(episode.seen[-1])
            if end != CONTINUES:
                episode.terminated = end == TERMINAL
                world.append(Episode([next(self.names)]))
            after.append(world[-1].seen[-1])
        self.rows += 1
        return before, arrived, after

    def windows(self, replay: Replay) -> dict[tuple[int, int], dict[str, object]]:
        """Every window that a replay may sample, by row and world."""
        layout, config = replay.layout, replay.config
        oldest = max(0, self.rows - layout.rows)
        if oldest:
            oldest += max(0, config.frame_stack - 2)
        found = {}
        for w, episodes in enumerate(self.worlds):
            for episode in episodes[-layout.endings :]:
                for i, row in enumerate(episode.rows):
                    if row >= oldest:
                        found[row, w] = window(episode, i, config.n_step, config.frame_stack)
        return found


def window(episode: Episode, start: int, n: int, stack: int) -> dict[str, object]:
    stop = min(start + n, len(episode.rows))
    arrivals = range(start + 1, stop + 1)
    terminal = episode.terminated and stop == len(episode.rows)
    return {
        "state": episode.seen[start],
        "rewards": [episode.seen[i] for i in arrivals],
        "next_state": episode.seen[stop],
        "discount": 0.0 if terminal else GAMMA ** (stop - start),
        "frames": [
            [episode.seen[max(0, i - back)] for back in reversed(range(stack))] for i in arrivals
        ],
    }


def seen(names: list[int], frame_width: int) -> Observation:
    """Observations that show their names: as the state, and as a frame's bytes."""
    state = torch.tensor(names).float()[:, None].repeat(1, 2)
    frames = torch.zeros(len(names), 2, 1, frame_width, dtype=torch.uint8)
    frames[:, 0] = torch.tensor(names)[:, None, None] % 256
    frames[:, 1] = torch.tensor(names)[:, None, None] // 256
    return Observation(state=state, frames=frames)


def feed(replay: Replay, naive: Naive, ends: list[int]) -> None:
    assert replay.layout.frame_shape is not None
    width = replay.layout.frame_shape[-1]
    before, arrived, after = (seen(names, width) for names in naive.step(ends))
    kinds = torch.tensor(ends)
    step = Step(
        obs=after,
        reward=arrived.state[:, 0],  # the reward of an arrival is its name
        terminated=kinds == TERMINAL,
        truncated=kinds == TIME_LIMIT,
        success=kinds == TERMINAL,
        final_obs=arrived,
    )
    replay.add(before, -before.state[:, :1], step)


def make(worlds=2, rows=5, horizon=3, n_step=3, stack=2, width=4, **config) -> Replay:
    settings = ReplayConfig(
        capacity=worlds * rows + worlds - 1,
        n_step=n_step,
        discount=GAMMA,
        frame_stack=stack,
        **config,
    )
    return Replay(
        settings,
        worlds=worlds,
        horizon=horizon,
        state_size=2,
        action_size=1,
        frame_shape=(2, 1, width),
    )


def names_of(frames: torch.Tensor) -> list[list[int]]:
    """Names shown by stacked frames (n, 2·stack, 1, width), oldest first."""
    pairs = frames.long().unflatten(1, (-1, 2))
    assert (pairs == pairs[..., :1]).all(), "a frame is torn"
    return (pairs[:, :, 0, 0, 0] + 256 * pairs[:, :, 1, 0, 0]).tolist()


def check(replay: Replay, naive: Naive, generator: torch.Generator) -> None:
    """Every window drawn is a naive one, and every naive one is drawn."""
    allowed = naive.windows(replay)
    drawn = replay.sample(40 * len(allowed), generator)
    frames = replay.arrival_frames(drawn.steps)
    row = drawn.steps // replay.layout.worlds
    newest = naive.rows - 1
    row = newest - (newest - row) % replay.layout.rows
    world = drawn.steps % replay.layout.worlds
    keys = list(zip(row[:, 0].tolist(), world[:, 0].tolist(), strict=True))
    state, action, mask = drawn.state.tolist(), drawn.action.tolist(), drawn.mask.tolist()
    rewards, next_state = drawn.task_reward.tolist(), drawn.next_state.tolist()
    discount, shown = drawn.discount.tolist(), names_of(frames.flatten(0, 1))
    n_step = replay.config.n_step
    for i, key in enumerate(keys):
        expected = allowed[key]
        length = len(expected["rewards"])
        assert state[i] == [expected["state"]] * 2
        assert action[i] == [-expected["state"]]
        assert mask[i] == [j < length for j in range(n_step)]
        assert rewards[i][:length] == expected["rewards"]
        assert next_state[i] == [expected["next_state"]] * 2
        assert math.isclose(discount[i], expected["discount"], rel_tol=1e-6, abs_tol=1e-12)
        assert shown[i * n_step :][:length] == expected["frames"]
    found = set(keys)
    assert found == set(allowed)


@st.composite
def histories(draw):
    """Ring sizes, window shapes, and how each step of each world ends."""
    worlds = draw(st.integers(1, 3))
    stack = draw(st.integers(1, 3))
    shape = {
        "worlds": worlds,
        "rows": draw(st.integers(max(1, stack - 1), 7)),
        "horizon": draw(st.integers(1, 5)),
        "n_step": draw(st.integers(1, 5)),
        "stack": stack,
        "width": draw(st.sampled_from([3, 4])),  # bytes that do and do not divide by eight
    }
    kinds = st.sampled_from([CONTINUES, CONTINUES, CONTINUES, TIME_LIMIT, TERMINAL])
    ends = st.lists(kinds, min_size=worlds, max_size=worlds)
    return shape, draw(st.lists(ends, min_size=1, max_size=18))


@settings(max_examples=120, deadline=None, derandomize=True)
@given(histories())
def test_windows_are_those_of_a_naive_buffer(history):
    shape, ends = history
    replay, naive = make(**shape), Naive(shape["worlds"])
    generator = torch.Generator().manual_seed(0)
    for i, row in enumerate(ends):
        feed(replay, naive, row)
        if i % 4 == 0 or i == len(ends) - 1:
            check(replay, naive, generator)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    rows=st.integers(2, 9),
    horizon=st.integers(1, 5),
    phases=st.lists(st.integers(0, 4), min_size=3, max_size=3),
)
def test_the_shelf_is_large_enough_for_time_limits(rows, horizon, phases):
    """With episodes as long as the horizon, every stored row can be sampled."""
    replay, naive = make(worlds=3, rows=rows, horizon=horizon), Naive(3)
    for i in range(25):
        feed(replay, naive, [TIME_LIMIT if (i + p + 1) % horizon == 0 else 0 for p in phases])
        assert len(naive.windows(replay)) == 3 * min(rows, i + 1)
        assert len(replay) == replay._sampler.readable[-1] == 3 * min(rows, i + 1)
    check(replay, naive, torch.Generator().manual_seed(1))


def test_steps_are_sampled_with_equal_probability():
    replay, naive = make(worlds=2, rows=4, horizon=50), Naive(2)
    for _ in range(7):
        # World 1 ends at every step, so its shelf of three episodes is too small.
        feed(replay, naive, [CONTINUES, TIME_LIMIT])
    allowed = naive.windows(replay)
    assert len(allowed) == 4 + 2, "of world 1 two ended episodes and an empty one"
    draws = 60_000
    steps = replay.sample(draws, torch.Generator().manual_seed(3)).steps[:, 0]
    counts = torch.bincount(steps, minlength=8)
    counts = counts[counts > 0].double()
    assert len(counts) == 6
    spread = math.sqrt(draws * (1 / 6) * (5 / 6))
    assert ((counts - draws / 6).abs() < 5 * spread).all()


def test_the_first_frame_of_an_episode_is_repeated():
    replay, naive = make(worlds=1, rows=4, stack=3, n_step=2), Naive(1)
    feed(replay, naive, [CONTINUES])
    assert names_of(replay.arrival_frames(replay.newest_steps())) == [[1, 1, 2]]
    feed(replay, naive, [TIME_LIMIT])
    assert names_of(replay.arrival_frames(replay.newest_steps())) == [[1, 2, 3]]
    feed(replay, naive, [CONTINUES])
    assert names_of(replay.arrival_frames(replay.newest_steps())) == [[4, 4, 5]]


def test_unlabeled_frames_are_arrivals_of_every_step():
    replay, naive = make(worlds=2, rows=3, stack=1), Naive(2)
    for _ in range(4):
        feed(replay, naive, [CONTINUES, TIME_LIMIT])
    steps = replay.sample_steps(300, torch.Generator().manual_seed(0))
    frames = replay.arrival_frames(steps)
    arrivals = {tuple(w["frames"][0]) for w in naive.windows(replay).values()}
    assert {tuple(names) for names in names_of(frames)} == arrivals


def test_an_n_step_return_sums_the_masked_steps():
    replay, naive = make(worlds=1, rows=4, n_step=3), Naive(1)
    feed(replay, naive, [CONTINUES])
    feed(replay, naive, [TERMINAL])
    drawn = replay.sample(50, torch.Generator().manual_seed(0))
    rewards = torch.tensor([[1.0, 2.0, float("nan")]]).expand(50, 3)
    two_steps = drawn.mask[:, 1]
    rewards = torch.where(two_steps[:, None], rewards, rewards[:, [0, 2, 2]])
    returns = drawn.n_step_return(rewards)
    assert torch.equal(returns, torch.where(two_steps, 1.0 + GAMMA * 2.0, 1.0))
    assert (drawn.discount == 0).all()


def test_a_batch_is_split_into_equal_parts():
    replay, naive = make(), Naive(2)
    for _ in range(4):
        feed(replay, naive, [CONTINUES, TIME_LIMIT])
    whole = replay.sample(12, torch.Generator().manual_seed(0))
    parts = whole.chunk(3)
    assert [len(part.state) for part in parts] == [4, 4, 4]
    assert torch.equal(torch.cat([part.steps for part in parts]), whole.steps)
    returns = torch.cat([part.n_step_return(part.task_reward) for part in parts])
    assert torch.equal(returns, whole.n_step_return(whole.task_reward))


def test_steps_are_counted_on_the_host():
    replay, naive = make(worlds=2, rows=3), Naive(2)
    assert len(replay) == replay.steps_added == 0
    for i in range(1, 6):
        feed(replay, naive, [CONTINUES, CONTINUES])
        assert replay.steps_added == 2 * i
        assert len(replay) == 2 * min(i, 3)


@pytest.mark.parametrize("rows_fed", [2, 9])
def test_a_restored_replay_continues_as_if_never_stopped(rows_fed):
    replay, naive = make(), Naive(2)
    script = [[CONTINUES, CONTINUES], [TIME_LIMIT, CONTINUES], [CONTINUES, TERMINAL]] * 5
    for ends in script[:rows_fed]:
        feed(replay, naive, ends)
    saved = {name: table.clone() for name, table in replay.state_dict().items()}
    fresh = make()
    fresh.load_state_dict(saved)
    assert len(fresh) == len(replay)
    one, two = (torch.Generator().manual_seed(5) for _ in range(2))
    mine, theirs = replay.sample(64, one), fresh.sample(64, two)
    assert torch.equal(mine.steps, theirs.steps)
    assert torch.equal(mine.next_state, theirs.next_state)
    for ends in script[rows_fed:]:
        feed(fresh, naive, ends)
    check(fresh, naive, two)


def test_episodes_that_are_under_way_can_be_cut_off():
    replay, naive = make(), Naive(2)
    for ends in ([CONTINUES, CONTINUES], [CONTINUES, TIME_LIMIT]):
        feed(replay, naive, ends)
    replay.end_episodes()
    naive.worlds[0].append(Episode([next(naive.names)]))  # the other world's has just ended
    replay.end_episodes()  # nothing is under way
    feed(replay, naive, [CONTINUES, CONTINUES])
    check(replay, naive, torch.Generator().manual_seed(0))


def test_empty_rows_are_not_saved():
    replay, naive = make(rows=1000, horizon=500), Naive(2)
    feed(replay, naive, [CONTINUES, CONTINUES])
    assert replay.state_dict()["action"].shape == (2, 1)


def test_a_saved_replay_of_another_shape_is_refused():
    replay, naive = make(rows=5), Naive(2)
    for _ in range(8):
        feed(replay, naive, [CONTINUES, CONTINUES])
    with pytest.raises(InputError, match="saved replay's 'state' must have shape"):
        make(rows=6).load_state_dict(replay.state_dict())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"capacity": 0}, "capacity must be at least 1, got 0"),
        ({"n_step": 0}, "n_step must be at least 1, got 0"),
        ({"discount": 1.5}, r"discount must lie in \[0, 1\], got 1.5"),
        ({"storage": "tape"}, "unknown storage 'tape'; choose from 'device', 'host'"),
    ],
)
def test_bad_settings_are_refused(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        ReplayConfig(**settings)


def test_a_ring_too_small_for_its_worlds_is_refused():
    with pytest.raises(InputError, match="every world, 4 steps, got 3"):
        Replay(ReplayConfig(capacity=3), worlds=4, horizon=9, state_size=2, action_size=1)


def test_wrong_shapes_and_missing_frames_are_refused():
    replay = make()
    good, wrong = seen([1, 2], 4), seen([1, 2, 3], 4)
    flags = torch.zeros(2, dtype=torch.bool)
    step = Step(
        obs=good,
        reward=torch.zeros(2),
        terminated=flags,
        truncated=flags,
        success=flags,
        final_obs=good,
    )
    with pytest.raises(InputError, match="states and actions must have shapes"):
        replay.add(wrong, torch.zeros(3, 1), step)
    blind = Observation(state=good.state, frames=None)
    with pytest.raises(InputError, match=r"frames must have shape .* cameras=True"):
        replay.add(blind, torch.zeros(2, 1), step)
    assert len(replay) == 0


def test_a_replay_without_frames_cannot_return_any():
    replay = Replay(ReplayConfig(capacity=9), worlds=1, horizon=3, state_size=2, action_size=1)
    with pytest.raises(InputError, match="stores no frames"):
        replay.arrival_frames(torch.zeros(1, dtype=torch.int64))


def test_an_empty_replay_cannot_be_sampled():
    with pytest.raises(InputError, match="an empty replay cannot be sampled"):
        make().sample(1, torch.Generator())
