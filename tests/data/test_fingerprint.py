"""The hash of a dataset: other data has another, the same data the same everywhere."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pureward.data import fingerprint as module
from pureward.data.episodes import Episode
from pureward.data.fingerprint import fingerprint


def episodes(count=3):
    frames = torch.arange(5 * 3 * 8 * 8).view(5, 3, 8, 8)
    return [
        Episode(frames=((frames + n) % 251).to(torch.uint8), rewards=torch.arange(4) / 3 + n)
        for n in range(count)
    ]


def test_it_is_the_same_on_every_machine():
    assert fingerprint(episodes()) == fingerprint(tuple(episodes()))
    assert fingerprint(episodes())[:16] == "5cd9bd7c094637fd"


@pytest.mark.parametrize(
    "change",
    [
        lambda one: {"rewards": one.rewards + 1e-3},
        lambda one: {"frames": one.frames + 1},
        lambda one: {"split": "failure"},
        lambda one: {"rewards": one.rewards[:3], "frames": one.frames[:4]},
    ],
)
def test_other_episodes_have_another(change):
    first, *others = episodes()
    assert fingerprint([replace(first, **change(first)), *others]) != fingerprint(episodes())
    assert fingerprint(others) != fingerprint(episodes())


def test_cameras_may_be_of_several_sizes(tmp_path):
    top, side = np.zeros((5, 32, 32, 3), np.uint8), np.zeros((5, 48, 48, 3), np.uint8)
    found = set()
    for changed in (top, top + 1):
        np.savez(tmp_path / "one.npz", top=changed, side=side)
        found |= {fingerprint(tmp_path / "one.npz", images) for images in (("top", "side"), "top")}
    assert len(found) == 4


def test_few_episodes_of_a_large_dataset_are_looked_at(monkeypatch):
    monkeypatch.setattr(module, "_EPISODES", 2)
    first, second, third, fourth = episodes(4)
    changed = replace(second, rewards=second.rewards + 1)
    assert fingerprint([first, changed, third, fourth]) == fingerprint(episodes(4))
    changed = replace(third, rewards=third.rewards + 1)
    assert fingerprint([first, second, changed, fourth]) != fingerprint(episodes(4))
