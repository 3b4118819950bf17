"""The frame memory keeps every frame with the same probability."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pureward.data.replay.memory import FrameMemory


def numbered(first: int, count: int) -> torch.Tensor:
    """Frames that hold their own number, in base 256 over three channels."""
    numbers = torch.arange(first, first + count)
    digits = torch.stack([numbers // 65536, numbers // 256 % 256, numbers % 256], dim=1)
    return digits.to(torch.uint8)[:, :, None, None]


def kept(memory: FrameMemory) -> torch.Tensor:
    digits = memory.tensors()["frames"][: memory.size, :, 0, 0].long()
    return digits @ torch.tensor([65536, 256, 1])


def filled(size: int, steps: int, each: int, seed: int = 0) -> FrameMemory:
    memory, rng = FrameMemory(size, (3, 1, 1), "cpu"), torch.Generator().manual_seed(seed)
    for step in range(steps):
        memory.add(numbered(step * each, each), rng)
    return memory


@settings(max_examples=30, deadline=None)
@given(size=st.integers(4, 40), steps=st.integers(1, 60), each=st.integers(1, 4))
def test_each_added_frame_is_stored_at_most_once(size, steps, each):
    found = kept(filled(size, steps, each))[: steps * each]
    assert found.unique().numel() == found.numel()
    assert found.max() < steps * each
    if steps * each <= size:
        assert found.tolist() == list(range(steps * each))


def test_early_and_late_frames_are_kept_with_equal_probability():
    size, steps, each = 50, 200, 5
    found = torch.cat([kept(filled(size, steps, each, seed)) for seed in range(40)])
    # 2000 frames over ten tenths of the stream: 200 expected of each, deviation 13.
    counts = torch.histc(found.float(), bins=10, min=0, max=steps * each)
    assert (counts - 200).abs().max() < 55


def test_samples_come_from_the_stored_frames():
    memory, rng = filled(30, 2, 5), torch.Generator().manual_seed(1)
    sampled = memory.sample(500, rng)[:, 2, 0, 0]
    assert sampled.unique().tolist() == list(range(10))


@pytest.mark.parametrize(("size", "steps"), [(30, 2), (5000, 400), (5000, 3000)])
def test_a_thinned_memory_holds_frames_of_the_whole_history(size, steps):
    before, after = filled(size, steps, 5), FrameMemory(size, (3, 1, 1), "cpu")
    thinned = before.thinned()
    assert thinned["frames"].shape == (min(1024, size), 3, 1, 1)
    after.load_thinned(thinned)
    stored = min(size, steps * 5)
    assert set(kept(after)[:stored].tolist()) <= set(kept(before)[:stored].tolist())
    assert kept(after)[:stored].unique().numel() == min(stored, 1024)
    # Both halves of the history have the same share before and after.
    halves = [(kept(memory)[:stored] < steps * 5 // 2).float().mean() for memory in (before, after)]
    assert abs(halves[0] - halves[1]) < 0.05
    # New frames are added with the probability that they would have had.
    for memory in (before, after):
        memory.add(numbered(90_000, 5), torch.Generator().manual_seed(3))
    assert (kept(after) >= 90_000).tolist() == (kept(before) >= 90_000).tolist()
