# SPDX-License-Identifier: Apache-2.0
"""Known failures are seen like the positives."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pureward.data.dataset import Dataset, check_apart
from pureward.data.episodes import FAILURE, Episode
from pureward.errors import InputError
from pureward.online.online_reward import OnlineReward
from pureward.online.supervision import Supervision


def dataset(*images: str) -> Dataset:
    """One episode of two steps, in frames of two images of 8×8 pixels."""
    frames = torch.zeros(3, 6, 8, 8, dtype=torch.uint8)
    episode = Episode(frames=frames, rewards=torch.zeros(2))
    return Dataset(path=None, images=images, episodes=(episode,))


def positives(*images: str) -> Supervision:
    return Supervision.of(dataset(*images), stack=2, images=images)


def test_known_failures_are_stacked_like_the_positives():
    for names in (("front", "wrist"), ()):
        assert positives("front", "wrist").known_failures(dataset(*names)).shape == (12, 8, 8)


def test_known_failures_with_images_in_another_order_are_refused():
    """D would tell them from the agent's frames by the order alone."""
    with pytest.raises(InputError, match=r"\['front', 'wrist'\] in the positives and \['wrist', "):
        positives("front", "wrist").known_failures(dataset("wrist", "front"))


def test_the_positives_are_not_known_failures(tmp_path):
    """Unless some of their episodes are marked as failures, which are no positives."""
    ours = replace(dataset(), path=tmp_path / "ours")
    for path in (tmp_path / "x" / ".." / "ours", tmp_path / "ours" / "data"):
        with pytest.raises(InputError, match="must be other episodes than the positives, got all"):
            check_apart(ours, replace(ours, path=path))
    check_apart(replace(ours, path=tmp_path / "theirs"), ours)
    check_apart(dataset(), dataset())  # in memory
    marked = replace(ours, episodes=(*ours, replace(ours[0], split=FAILURE)))
    check_apart(marked, marked)
    assert len(positives().known_failures(marked)) == 2


def test_an_online_reward_refuses_the_positives_as_known_failures(tmp_path):
    path = tmp_path / "one.npy"
    np.save(path, np.zeros((4, 8, 8, 3), np.uint8))
    with pytest.raises(InputError, match="must be other episodes than the positives"):
        OnlineReward(demonstrations=path, failures=path, device="cpu")
