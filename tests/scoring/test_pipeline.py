"""Scores of episodes in batches are those of each episode on its own."""

import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import pureward
from pureward.data.frames import FrameBank
from pureward.data.prefetch import prefetched
from pureward.scoring import pipeline

RNG = np.random.default_rng(0)
LENGTHS = (5, 2, 40, 3)


@pytest.fixture
def dataset(tmp_path):
    (tmp_path / "set").mkdir()
    for number, length in enumerate(LENGTHS):
        images = RNG.integers(0, 256, (length, 24, 40, 3), dtype=np.uint8)
        np.save(tmp_path / "set" / f"{number}.npy", images)
    return pureward.read_episodes(tmp_path / "set", size=(32, 32))


@pytest.mark.parametrize("size", [1, 7, 256])
@pytest.mark.parametrize(("kind", "stack"), [("gated", 1), ("imitation", 3), ("regression", 2)])
def test_values_are_those_of_stacks_as_in_training(
    kind, stack, size, dataset, a_reward, monkeypatch
):
    monkeypatch.setitem(pipeline._FRAMES, "cpu", size)
    _, reward = a_reward(kind, 3 * stack, stack=stack)
    scored = dict(pipeline.score_episodes(reward, dataset, range(len(LENGTHS))))
    assert list(scored) == [0, 1, 2, 3]
    names = pipeline.columns(reward)
    assert (
        names
        == {
            "gated": ["reward", "D", "r_phi"],
            "imitation": ["reward", "D"],
            "regression": ["reward"],
        }[kind]
    )
    for number, values in scored.items():
        stacks = FrameBank([dataset[number]], stack=stack).every()
        assert values.shape == (len(names), LENGTHS[number])
        torch.testing.assert_close(values[0, 1:], reward(stacks), atol=1e-5, rtol=0)
        if "D" in names:
            wanted = reward.success_logits(stacks).sigmoid()
            torch.testing.assert_close(values[1, 1:], wanted, atol=1e-5, rtol=0)
        if "r_phi" in names:
            torch.testing.assert_close(values[2, 1:], reward.predicted(stacks), atol=1e-5, rtol=0)
        first = dataset[number].frames[:1].repeat(1, stack, 1, 1)  # the first one is repeated
        torch.testing.assert_close(values[0, :1], reward(first), atol=1e-5, rtol=0)


def test_some_episodes(dataset, a_reward):
    _, reward = a_reward()
    every = dict(pipeline.score_episodes(reward, dataset, range(4)))
    some = dict(pipeline.score_episodes(reward, dataset, [2, 3]))
    assert list(some) == [2, 3]
    torch.testing.assert_close(some[3], every[3], atol=1e-5, rtol=0)
    assert list(pipeline.score_episodes(reward, dataset, [])) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"channels": 6, "stack": 1}, "sees RGB images of 2 cameras, and a frame here has 1 im"),
        ({"channels": 9, "stack": 3}, None),
    ],
)
def test_frames_must_have_the_channels_of_the_reward(changes, sentence, dataset, a_reward):
    _, reward = a_reward(**changes)
    if sentence is None:
        assert len(list(pipeline.score_episodes(reward, dataset, [0]))) == 1
        return
    with pytest.raises(pureward.InputError, match=sentence):
        list(pipeline.score_episodes(reward, dataset, [0]))


def prefetching():
    return [one for one in threading.enumerate() if one.name.startswith("pureward-prefetch")]


def test_an_error_in_the_thread_is_raised(dataset, a_reward, tmp_path):
    _, reward = a_reward()
    (tmp_path / "set/2.npy").write_bytes(b"")
    found = []
    with pytest.raises(pureward.InputError, match=r"2.npy: cannot be read"):
        found += pipeline.score_episodes(reward, dataset, range(4))
    assert not prefetching()


def test_a_prefetching_thread_ends_with_its_reader():
    asked = []

    def items():
        for number in range(1000):
            asked.append(number)
            yield number

    reader = prefetched(items(), ahead=2)
    assert next(reader) == 0
    assert prefetching()
    assert [next(reader) for _ in range(5)] == [1, 2, 3, 4, 5]
    reader.close()
    assert len(asked) <= 9
    assert list(prefetched(iter(range(50)))) == list(range(50))
    assert not prefetching()


# Peak memory of scoring beyond that of scoring one batch.
MEASURE = """
import sys, torch, pureward
from pureward.rewards.learned import LearnedReward, RewardSpec
from pureward.rewards.network import NetworkConfig, seeded_network
from pureward.scoring.pipeline import score_episodes
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
network = NetworkConfig(stage_channels=(4, 4), stage_blocks=0)
made = seeded_network(network, 0, torch.device("cpu"))
reward = LearnedReward(RewardSpec(reward="imitation", network=network), discriminator=made)
reward(torch.zeros(512, 3, 64, 64, dtype=torch.uint8))
dataset = pureward.read_episodes(sys.argv[1])
dataset[0].frames[:256]
before = peak()
((_, values),) = score_episodes(reward, dataset, [0])
print(values.shape[1], peak() - before)
"""


@pytest.mark.slow
def test_an_episode_larger_than_the_memory_in_use_is_scored(tmp_path):
    """30,000 frames of 64 × 64 are 369 MB; the file is sparse."""
    np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.uint8, (30_000, 64, 64, 3))
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "x.npy")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    frames, kilobytes = map(int, done.stdout.split())
    assert frames == 30_000
    assert kilobytes < 200_000
