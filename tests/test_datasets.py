"""The data in the repository: as it was collected, readable, and drawn on load."""

import hashlib
from pathlib import Path

import pytest
import torch

import pureward
from pureward.data.dataset import Dataset, read_dataset
from pureward.data.draw import Painter
from pureward.data.episodes import FAILURE, HELD_OUT, TRAIN
from pureward.runs.policy import snapshots

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "datasets"
SUMS = dict(line.split()[::-1] for line in (FOLDER / "SHA256SUMS").read_text().splitlines())


TASKS = ("lift", "stack", "walker")
KINDS = [f"{task}/{kind}" for task in TASKS for kind in ("demonstrations", "annotations")]


@pytest.fixture(scope="module", params=KINDS)
def dataset(request) -> Dataset:
    return read_dataset(FOLDER / request.param)


@pytest.mark.parametrize("name", SUMS)
def test_every_file_is_the_one_that_was_collected(name):
    assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == SUMS[name]


def test_no_file_is_left_out_and_all_fit_into_the_repository():
    files = [p for task in TASKS for p in (FOLDER / task).rglob("*") if p.is_file()]
    assert sorted(SUMS) == sorted(p.relative_to(FOLDER).as_posix() for p in files)
    assert sum(p.stat().st_size for p in files) < 20e6


def test_the_paper_s_numbers_of_episodes(dataset):
    wanted, steps = {"lift": (50, 400), "stack": (200, 400), "walker": (50, 1000)}[dataset.task]
    counts = [len(dataset.split(name)) for name in (TRAIN, HELD_OUT, FAILURE)]
    assert counts == [wanted, 10, 10]
    assert all(len(episode) == steps for episode in dataset.episodes)
    assert not any(episode.succeeds for episode in dataset.split(FAILURE))


def test_annotated_episodes_are_of_the_expert_s_whole_course(dataset):
    demonstrated = dataset.path.name == "demonstrations"
    acted = {episode.policy for episode in dataset.split(TRAIN)}
    if dataset.task == "walker":  # of its expert the last policy alone is kept
        last = snapshots(ROOT / "results/expert/walker")[-1].stem
        assert last in acted
        assert len(acted) == (1 if demonstrated else 25)
        return
    expert = "lift-course" if dataset.task == "lift" and not demonstrated else dataset.task
    course = [path.stem for path in snapshots(ROOT / "results/jaco/experts" / expert)]
    assert acted == (set(course[-1:]) if demonstrated else set(course))


def test_frames_are_drawn_from_the_states(dataset):
    """At the end of a solved episode the camera sees what the task is about, elsewhere."""
    if dataset.task == "walker":
        pytest.skip("the camera goes with the walker")
    solved = next(e for e in reversed(dataset.split(TRAIN)) if e.succeeds)
    first, last = Painter(dataset.task, worlds=2).frames(solved, [0, 400])
    assert first.shape == (6, 64, 64)
    assert first.dtype == torch.uint8
    cyan = [(f[1] > 150) & (f[2] > 150) & (f[0] < 80) for f in (first, last)]
    red = [(f[0] > 130) & (f[1] < 60) & (f[2] < 60) for f in (first, last)]
    moved, seen = cyan if dataset.task == "lift" else red, red[0] | cyan[0]
    assert seen.sum() > 20  # pixels of the objects
    assert (moved[0] != moved[1]).sum() > 10


@pytest.mark.parametrize("kind", ["demonstrations", "annotations"])
def test_rewards_are_those_of_the_stored_arrival_states(kind):
    """Lifting is judged by where things are, so the rounded states tell the reward again."""
    episodes = read_dataset(FOLDER / "lift" / kind).split(TRAIN)
    episode = next(one for one in reversed(episodes) if one.succeeds)
    steps = torch.arange(0, 400, 25)
    env = pureward.make("lift", len(steps), "cpu")
    env.engine.state.qpos.copy_(episode.simulator["qpos"][steps + 1])
    env.engine.refresh()
    again = env.task.reward(env.engine.state).float()
    assert torch.allclose(again, episode.rewards[steps], atol=1e-3)
    assert episode.rewards[steps].max() > 0.9
