"""Stacks of frames, at the start of episodes and later."""

import pytest
import torch

from pureward.data.episodes import Episode
from pureward.data.frames import FrameBank, RollingStack
from pureward.errors import InputError


def episode(steps: int, first: int) -> Episode:
    """An episode whose frames hold their own number."""
    numbers = torch.arange(first, first + steps + 1, dtype=torch.uint8)
    frames = numbers[:, None, None, None].expand(-1, 3, 2, 2).clone()
    return Episode(rewards=torch.arange(steps).float(), frames=frames)


def seen(stacks: torch.Tensor) -> list[list[int]]:
    """Numbers of the frames in each stack, oldest first."""
    return stacks[:, ::3, 0, 0].tolist()


def test_rows_are_arrivals_and_stacks_stay_in_their_episode():
    bank = FrameBank([episode(3, 10), episode(2, 20)], stack=3)
    assert len(bank) == 5
    assert seen(bank.every()) == [
        [10, 10, 11],
        [10, 11, 12],
        [11, 12, 13],
        [20, 20, 21],
        [20, 21, 22],
    ]
    assert bank.episodes.tolist() == [0, 0, 0, 1, 1]
    assert bank.rewards.tolist() == [0, 1, 2, 0, 1]


def test_a_stack_of_one_is_the_arrival_frame():
    bank = FrameBank([episode(2, 5)])
    assert seen(bank[torch.tensor([1, 0, 1])]) == [[7], [6], [7]]


def test_samples_are_uniform_over_rows():
    bank = FrameBank([episode(3, 0), episode(1, 50)])
    drawn = bank.sample(4000, torch.Generator().manual_seed(0))[:, 0, 0, 0]
    numbers, counts = drawn.unique(return_counts=True)
    assert numbers.tolist() == [1, 2, 3, 51]
    assert (counts - 1000).abs().max() < 130  # 4.7 standard deviations


def test_a_rolling_stack_agrees_with_the_bank():
    one = episode(4, 30)
    assert one.frames is not None
    stack = RollingStack(3)
    stack.begin(one.frames[:1])
    rolled = torch.cat([stack.push(frame[None]) for frame in one.frames[1:]])
    assert torch.equal(rolled, FrameBank([one], stack=3).every())


def test_missing_frames_are_refused():
    with pytest.raises(InputError, match="at least one episode"):
        FrameBank([])
    with pytest.raises(InputError, match="episode 0 has no frames yet"):
        FrameBank([Episode(rewards=torch.zeros(2))])


@pytest.mark.parametrize("stack", [0, 342, "2", 2.0, True])
def test_a_stack_is_a_whole_number_that_a_network_takes(stack):
    sentence = f"stack must be a whole number from 1 to 341, got {stack!r}; try 2"
    with pytest.raises(InputError, match=sentence):
        FrameBank([episode(2, 5)], stack=stack)


def test_frames_with_channels_last_in_memory_are_stacked_alike():
    one = episode(3, 10)
    turned = one.frames.contiguous(memory_format=torch.channels_last)
    bank = FrameBank([Episode(rewards=one.rewards, frames=turned)], stack=2)
    assert seen(bank.every()) == [[10, 11], [11, 12], [12, 13]]
