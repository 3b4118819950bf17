"""`compact` rounds within its grid."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import pureward
from pureward.data.dataset import read_dataset
from pureward.data.draw import draw
from pureward.data.episodes import Episode
from pureward.data.writing import GRID, compact, write_episodes
from pureward.runs.collect import rollout


@pytest.fixture(scope="module")
def lifted():
    """Two episodes of the lift script."""
    env = pureward.make("lift", 2, "cpu")
    script = env.script()
    return [_first(episode, 100) for episode in rollout(env, lambda _: script())]


def _first(episode: Episode, steps: int) -> Episode:
    return Episode(
        rewards=episode.rewards[:steps],
        actions=episode.actions[:steps],
        success=episode.success[:steps],
        state=episode.state[: steps + 1],
        simulator={name: value[: steps + 1] for name, value in episode.simulator.items()},
    )


def test_the_same_episodes_make_the_same_file(lifted, tmp_path):
    for name in ("one", "two"):
        write_episodes(tmp_path / name, lifted, task="lift")
    one, two = ((tmp_path / n / "data" / "main_data.hdf5").read_bytes() for n in ("one", "two"))
    assert one == two


@given(st.lists(st.floats(-8.0, 8.0), min_size=2, max_size=20))
def test_compact_rounds_within_the_grid_and_is_idempotent(numbers):
    values = torch.tensor([numbers, numbers], dtype=torch.float64)
    episode = Episode(
        rewards=torch.zeros(1), actions=values[:1].float(), simulator={"qpos": values}
    )
    once = compact(episode)
    assert once.simulator["qpos"].dtype == torch.float32
    assert (once.simulator["qpos"].double() - values).abs().max() <= GRID / 2
    assert torch.equal(compact(once).simulator["qpos"], once.simulator["qpos"])
    assert torch.equal(compact(once).actions, once.actions)


def test_compact_episodes_are_a_quarter_as_large_and_look_the_same(lifted, tmp_path):
    write_episodes(tmp_path / "whole", lifted, task="lift")
    write_episodes(tmp_path / "compact", map(compact, lifted), task="lift")
    files = [tmp_path / n / "data" / "main_data.hdf5" for n in ("whole", "compact")]
    whole, small = (file.stat().st_size for file in files)
    assert small * 4 < whole
    read = read_dataset(tmp_path / "compact")
    assert read.task == "lift"
    for one, kept in zip(read.episodes, lifted, strict=True):
        assert one.state is None
        assert torch.equal(one.rewards, kept.rewards)
        assert torch.equal(one.success, kept.success)
    few = [_few(episode) for episode in (read.episodes[0], lifted[0])]
    seen = [episode.frames.int() for episode in draw(few, "lift")]
    apart = (seen[0] - seen[1]).abs()
    assert (apart > 2).float().mean() < 1e-3  # edges move by rounding
    assert len(seen[0].unique()) > 100


def _few(episode: Episode) -> Episode:
    """Five instants of an episode."""
    simulator = {name: value[::25] for name, value in episode.simulator.items()}
    return replace(
        episode,
        state=None,
        rewards=episode.rewards[:4],
        actions=episode.actions[:4],
        success=episode.success[:4],
        simulator=simulator,
    )
