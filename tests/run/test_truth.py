"""What the simulator alone knows: counted by hand, saved, and kept from every learner."""

import pytest
import torch

from pureward.run.truth import Truth
from pureward.types import Observation, Step

SEEN = Observation(state=torch.zeros(2, 1), frames=None)
CPU = torch.device("cpu")


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


def counted(steps: list[Step], **options: float) -> Truth:
    """Two worlds, and a replay of two steps of each."""
    truth = Truth(rows=2, worlds=2, device=CPU, **options)
    for one in steps:
        truth.count(one)
    return truth


def test_returns_are_those_of_finished_episodes_since_the_last_reading():
    truth = counted(STEPS[:2])
    assert truth.read()["return"] == 3.0
    assert "return" not in truth.read()
    for one in STEPS[2:]:
        truth.count(one)
    assert truth.read()["return"] == 12.0


@pytest.mark.parametrize(
    ("done", "remembered", "share"),
    [
        (1, 0.0, 1.0),
        (2, 0.0, 3 / 4),
        (4, 0.0, 1 / 4),  # the replay holds the last two steps of each world
        (4, 1.0, 4 / 8),  # of all there ever was
        (4, 0.5, 3 / 8),  # half of each
    ],
)
def test_successes_are_those_among_the_unlabeled_frames(done, remembered, share):
    assert counted(STEPS[:done], remembered=remembered).read()["true_success"] == share


def test_before_the_first_step_nothing_is_told():
    assert counted([]).read() == {}


def test_a_resumed_count_reads_the_same():
    whole, parts = (
        counted(STEPS, remembered=0.5),
        Truth(rows=2, worlds=2, device=CPU, remembered=0.5),
    )
    parts.load_tensors(
        {k: v.clone() for k, v in counted(STEPS[:3]).tensors(with_replay=True).items()}
    )
    parts.count(STEPS[3])
    assert parts.read() == whole.read()


def test_without_a_replay_successes_are_counted_anew():
    kept = counted(STEPS[:3]).tensors(with_replay=False)
    truth = Truth(rows=2, worlds=2, device=CPU)
    truth.load_tensors(kept)
    truth.count(STEPS[3])
    told = truth.read()
    assert told["true_success"] == 1 / 2
    assert told["return"] == (3.0 + 12.0) / 2
