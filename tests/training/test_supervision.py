"""Warnings about the data of a run."""

from dataclasses import replace

import pytest
import torch

import pureward
from pureward.data.episodes import Episode
from pureward.data.writing import write_episodes
from pureward.runs.config import RunConfig
from pureward.training.supervision import load_supervision

STEPS = 5


def loaded(folder, frames, success=None, **facts):
    """Read a dataset with one episode for each of the frames."""
    write_episodes(
        folder,
        [
            Episode(
                rewards=torch.zeros(STEPS),
                actions=torch.zeros(STEPS, 2),
                simulator={"qpos": torch.zeros(STEPS + 1, 2)},
                frames=seen,
                success=success,
                split=split,
            )
            for split, seen in frames
        ],
        task="reach",
        facts=facts,
    )
    config = RunConfig(task="reach", method="nn-pugail", demonstrations=str(folder), device="cpu")
    with pureward.make("reach", 1, "cpu", cameras=True) as env:
        return load_supervision(config, env)


def noise():
    return torch.randint(256, (STEPS + 1, 3, 64, 64)).to(torch.uint8)


def test_good_data_gives_no_warning(tmp_path, capsys):
    data = loaded(tmp_path, [("train", noise()), ("held-out", noise())])
    assert len(data.train) == STEPS
    assert data.held_out is not None
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("stated", "known"), [(["top"], ("top",)), ([], ()), ("top", ()), ([1], ())]
)
def test_names_of_images_are_those_of_the_data(tmp_path, stated, known):
    assert loaded(tmp_path, [("train", noise())], images=stated).images == known


def test_a_dataset_without_held_out_episodes_gives_a_warning(tmp_path, capsys):
    data = loaded(tmp_path, [("train", noise())])
    assert data.held_out is None
    assert f"warning: no episode of {tmp_path} is held out (it has 1)" in capsys.readouterr().out


@pytest.mark.parametrize(("last", "warned"), [(False, True), (True, False)])
def test_demonstrations_without_success_give_a_warning(last, warned, tmp_path, capsys):
    success = torch.arange(STEPS) == (STEPS - 1 if last else STEPS)
    loaded(tmp_path, [("train", noise()), ("held-out", noise())], success=success)
    warning = f"warning: {tmp_path}: success is 0 in all 2 episodes that state it"
    assert (warning in capsys.readouterr().out) is warned


@pytest.mark.parametrize("same", [True, False])
def test_equal_frames_give_a_warning(same, tmp_path, capsys):
    black = torch.zeros(STEPS + 1, 3, 64, 64, dtype=torch.uint8)
    other = black.clone()
    other[-1, 0, 0, 0] = not same
    loaded(tmp_path, [("train", black), ("held-out", other)])
    warning = f"warning: all frames of {tmp_path} are equal, and a reward cannot learn"
    assert (warning in capsys.readouterr().out) is same


@pytest.mark.parametrize(("last", "warned"), [(0.0, True), (1.0, False)])
def test_annotations_with_one_reward_give_a_warning(last, warned, tmp_path, capsys):
    rewards = torch.zeros(STEPS)
    rewards[-1] = last
    episode = Episode(
        rewards=rewards,
        rated=True,
        actions=torch.zeros(STEPS, 2),
        simulator={"qpos": torch.zeros(STEPS + 1, 2)},
        frames=noise(),
    )
    write_episodes(tmp_path, [episode, replace(episode, split="held-out")], task="reach")
    config = RunConfig(task="reach", method="prl", annotations=str(tmp_path), device="cpu")
    with pureward.make("reach", 1, "cpu", cameras=True) as env:
        load_supervision(config, env)
    warning = f"warning: {tmp_path}: all rewards are 0, and a reward model can learn nothing"
    assert (warning in capsys.readouterr().out) is warned
