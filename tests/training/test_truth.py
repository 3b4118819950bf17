"""True returns and successes: hand-computed, and saved in checkpoints."""

from dataclasses import replace

import pytest
import torch

from pureward.data.replay.replay import Replay, ReplayConfig
from pureward.training.truth import Truth
from pureward.types import Observation, Step

SEEN = Observation(state=torch.zeros(2, 1), frames=None)


def step(reward: list[float], success: list[bool], ended: bool = False) -> Step:
    return Step(
        obs=SEEN,
        reward=torch.tensor(reward),
        terminated=torch.tensor([False, False]),
        truncated=torch.tensor([ended, False]),
        success=torch.tensor(success),
        final_obs=SEEN,
    )


STEPS = [
    step([1.0, 5.0], [True, True]),
    step([2.0, 5.0], [True, False], ended=True),
    step([4.0, 5.0], [False, False]),
    step([8.0, 5.0], [False, True], ended=True),
]


def replay_of(rows: int, frame_shape: tuple[int, int, int] | None = None) -> Replay:
    """A replay of two worlds."""
    config = ReplayConfig(capacity=2 * rows, frame_stack=1)
    return Replay(config, worlds=2, horizon=4, state_size=1, action_size=1, frame_shape=frame_shape)


def counted(steps: list[Step], **options: bool) -> Truth:
    """Two worlds, and a replay of two steps of each."""
    truth = Truth(replay_of(rows=2), **options)
    for one in steps:
        truth.add(one)
    return truth


def test_returns_are_those_of_episodes_that_ended_since_the_last_call():
    truth = counted(STEPS[:2])
    assert truth.read()["return"] == 3.0
    assert "return" not in truth.read()
    for one in STEPS[2:]:
        truth.add(one)
    assert truth.read()["return"] == 12.0


def test_staggered_first_episodes_are_not_counted():
    truth = counted(STEPS[:2], staggered=True)
    assert "return" not in truth.read()
    resumed = counted([], staggered=True)
    resumed.load_tensors(truth.tensors(with_replay=False), truth.facts())
    for one in STEPS[2:]:
        resumed.add(one)
    assert resumed.read()["return"] == 12.0


@pytest.mark.parametrize(
    ("done", "has_memory", "share"),
    [
        (1, False, 1.0),
        (2, False, 3 / 4),
        (4, False, 1 / 4),  # the replay holds the last two steps of each world
        (4, True, 3 / 8),  # of all steps 4 / 8; half of each
    ],
)
def test_true_success_is_the_share_among_unlabeled_frames(done, has_memory, share):
    assert counted(STEPS[:done], has_memory=has_memory).read()["true_success"] == share


def test_there_are_no_metrics_before_the_first_step():
    assert counted([]).read() == {}


def shown(number: int) -> Observation:
    """Frames of two worlds: all pixels `number`, and `number` + 100."""
    frames = torch.tensor([number, 100 + number], dtype=torch.uint8).view(2, 1, 1, 1)
    return Observation(state=torch.zeros(2, 1), frames=frames.expand(2, 3, 2, 2).contiguous())


def played(steps: int, *, won: set[int]) -> Truth:
    """Three steps of each of two worlds are kept; the second world solves some of them."""
    replay = replay_of(rows=3, frame_shape=(3, 2, 2))
    truth = Truth(replay)
    for number in range(steps):
        arrival = shown(number + 1)
        made = step([0.0, 0.0], [False, number in won], ended=False)
        made = replace(made, obs=arrival, final_obs=arrival)
        replay.add(shown(number), torch.zeros(2, 1), made)
        truth.add(made)
    return truth


@pytest.mark.parametrize(
    ("steps", "won", "seen"),
    [
        (2, {1}, {102}),
        (3, {0, 2}, {101, 103}),
        (5, {0, 1, 3}, {104}),  # the first two are overwritten
    ],
)
def test_solved_frames_are_those_of_successful_steps(steps, won, seen):
    frames = played(steps, won=won).solved_frames(8)
    assert frames is not None
    assert set(frames[:, 0, 0, 0].tolist()) == seen
    assert len(frames) == 8


def test_without_successes_there_are_no_solved_frames():
    assert played(4, won=set()).solved_frames(8) is None
    assert played(0, won=set()).solved_frames(8) is None
    assert counted(STEPS).solved_frames(8) is None


def test_loaded_counts_read_the_same():
    whole, parts = counted(STEPS, has_memory=True), counted([], has_memory=True)
    before = counted(STEPS[:3])
    kept = {k: v.clone() for k, v in before.tensors(with_replay=True).items()}
    parts.load_tensors(kept, before.facts())
    parts.add(STEPS[3])
    assert parts.read() == whole.read()


@pytest.mark.parametrize(
    ("with_replay", "facts", "share"),
    [
        (False, {"successes": 3, "counted_steps": 2}, 3 / 8),  # 1 of 4 in the replay, 4 of 8 in all
        (True, {"successes": 3, "counted_steps": 2}, 3 / 8),
        # Checkpoints of earlier versions have no such facts.
        (False, {"successes": 0, "counted_steps": 0}, 1 / 4),
        (True, {"successes": 0, "counted_steps": 0}, 3 / 8),
    ],
)
def test_successes_before_a_resume_count_for_the_memory(with_replay, facts, share):
    before, truth = counted(STEPS[:2]), counted([], has_memory=True)
    assert before.facts() == {"successes": 3, "counted_steps": 2}
    truth.load_tensors(before.tensors(with_replay=with_replay), facts)
    for one in STEPS[2:]:
        truth.add(one)
    assert truth.read()["true_success"] == share


def test_without_a_replay_its_successes_start_at_zero():
    before, truth = counted(STEPS[:3]), counted([])
    truth.load_tensors(before.tensors(with_replay=False), before.facts())
    truth.add(STEPS[3])
    values = truth.read()
    assert values["true_success"] == 1 / 2
    assert values["return"] == (3.0 + 12.0) / 2
