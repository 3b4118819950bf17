"""`import`: what the source states is kept, and a folder is whole or absent."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import minari
import numpy as np
import pytest
import torch

import pureward
from films import write_film
from pureward.cli import main
from pureward.data import lazy, writing
from pureward.data.writers.own import import_episodes
from pureward.runs.collect import rollout

LEROBOT = Path(__file__).parents[1] / "lerobot/films"
IMAGES = np.random.default_rng(0).integers(0, 256, (9, 40, 30, 3), dtype=np.uint8)


def equal(one, other):
    return torch.equal(one, other) if one is not None and other is not None else one is other


def test_an_import_keeps_all_that_the_source_has(tmp_path):
    made = import_episodes(LEROBOT, tmp_path / "new", images=("front", "wrist"), size=None)
    source = pureward.read_episodes(LEROBOT, images=("front", "wrist"), size=None)
    assert (made.fps, made.lossy, made.states_ends) == (10.0, True, True)
    for got, given in zip(made, source, strict=True):
        assert torch.equal(got.frames[:], given.frames[:])
        for name in ("rewards", "success", "state", "actions"):
            assert equal(getattr(got, name), getattr(given, name)), name
        assert (got.split, got.rated, got.terminated) == (given.split, True, given.terminated)
    assert minari.MinariDataset(tmp_path / "new/data").total_steps == 16  # Minari opens it


def test_videos_stay_unrated_lossy_and_without_known_ends(tmp_path):
    for split, count in (("train", 5), ("failure", 9)):
        (tmp_path / "films" / split).mkdir(parents=True)
        name = tmp_path / "films" / split / "a.mp4"
        write_film(name, IMAGES[:count], "libx264", "yuv420p")
    made = import_episodes(tmp_path / "films", str(tmp_path / "new"))
    assert (made.fps, made.lossy, made.states_ends) == (10.0, True, False)
    assert [(e.split, e.rated, tuple(e.frames.shape)) for e in made] == [
        ("train", False, (5, 3, 64, 64)),
        ("failure", False, (9, 3, 64, 64)),
    ]


def test_frames_are_read_and_written_a_block_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(lazy, "BLOCK_BYTES", 2 * 40 * 30 * 3)  # of two frames
    np.save(tmp_path / "x.npy", IMAGES)
    sizes, honest = [], writing.prefetched
    monkeypatch.setattr(
        writing, "prefetched", lambda clips: (sizes.append(len(c)) or c for c in honest(clips))
    )
    (episode,) = import_episodes(tmp_path / "x.npy", tmp_path / "new", size=None)
    assert torch.equal(episode.frames[:], torch.from_numpy(IMAGES).permute(0, 3, 1, 2))
    assert len(sizes) >= 4
    assert max(sizes) == 2


def test_several_sources_become_one_dataset(tmp_path):
    np.savez(tmp_path / "a.npz", images=IMAGES, rewards=np.ones(8))
    np.savez(tmp_path / "b.npz", images=IMAGES[:5], rewards=np.zeros(4))
    made = import_episodes([tmp_path / "a.npz", tmp_path / "b.npz"], tmp_path / "new")
    assert [(len(e), float(e.rewards.sum())) for e in made] == [(8, 8.0), (4, 0.0)]
    again = import_episodes([tmp_path / "new", tmp_path / "new"], tmp_path / "twice")
    assert [len(e) for e in again] == [8, 4, 8, 4]
    assert torch.equal(again[3].frames[:], made[1].frames[:])


def test_sources_that_state_different_things_are_refused(tmp_path):
    np.savez(tmp_path / "rated.npz", images=IMAGES, rewards=np.ones(8))
    np.save(tmp_path / "bare.npy", IMAGES)
    write_film(tmp_path / "film.mp4", IMAGES, "libx264", "yuv420p")
    for other, said in (("bare.npy", "rewards in .*rated.npz only"), ("film.mp4", "the same fps")):
        with pytest.raises(pureward.InputError, match=said):
            import_episodes([tmp_path / "rated.npz", tmp_path / other], tmp_path / "new")
        assert not (tmp_path / "new").exists()
    with pytest.raises(pureward.InputError, match="at least one dataset, got none"):
        import_episodes([], tmp_path / "new")


def test_states_are_left_out_if_one_source_has_none(tmp_path):
    env = pureward.make("reach", 1, "cpu", cameras=True)
    (played,) = rollout(env, lambda state: torch.zeros(1, env.action_size))
    writing.write_episodes(tmp_path / "whole", [played], task="reach")
    writing.write_episodes(tmp_path / "small", [writing.compact(played)], task="reach")
    made = import_episodes([tmp_path / "whole", tmp_path / "small"], tmp_path / "new")
    assert [e.state for e in made] == [None, None]
    assert torch.equal(made[0].frames[:], made[1].frames[:])


def test_states_of_our_tasks_are_drawn(tmp_path):
    env = pureward.make("reach", 1, "cpu", cameras=True)
    (played,) = rollout(env, lambda state: torch.zeros(1, env.action_size))
    writing.write_episodes(tmp_path / "states", [replace(played, frames=None)], task="reach")
    made = import_episodes(tmp_path / "states", tmp_path / "new")
    assert made.task == "reach"
    assert torch.equal(made[0].frames[:], played.frames)


def test_the_verb(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", IMAGES)
    main(["import", "x.npy", "--out", "new", "--size", "None"])
    assert "train       1 episodes\n  new" in capsys.readouterr().out
    assert pureward.read_episodes("new", size=None)[0].frames.shape == (9, 3, 40, 30)
    with pytest.raises(SystemExit, match="2"):
        main(["import", "x.npy", "--out", "new"])
    assert "new exists already; choose another folder" in capsys.readouterr().err


def test_a_bad_source_leaves_nothing(tmp_path):
    np.save(tmp_path / "a.npy", IMAGES)
    np.save(tmp_path / "b.npy", IMAGES[:, :, :, :1].repeat(6, axis=3))
    with pytest.raises(pureward.InputError, match="episode 1: must hold the same as episode 0"):
        import_episodes(tmp_path, tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "b.npy"]


def test_a_folder_that_cannot_be_written_is_told_before_the_source_is_read(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(pureward.InputError, match="new must be a folder that can be written"):
        import_episodes("not read", tmp_path / "file" / "new")


def test_sizes_that_differ_are_refused_by_the_name_of_the_new_dataset(tmp_path):
    (tmp_path / "films").mkdir()
    for number in (1, 2):
        write_film(tmp_path / f"films/{number}.mkv", IMAGES[:, : 20 * number])
    with pytest.raises(pureward.InputError, match=r"/new, episode 1: .* give one size, --size"):
        import_episodes(tmp_path / "films", tmp_path / "new", size=None)
    assert not (tmp_path / "new").exists()


def test_frames_too_large_for_minari_are_refused_at_once(tmp_path):
    np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.uint8, (2, 1080, 1920, 3))
    with pytest.raises(pureward.InputError, match="frames of 1080×1920 with 3 channels are too"):
        import_episodes(tmp_path / "x.npy", tmp_path / "new", size=None)
    assert not (tmp_path / "new").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from pureward.data import writing
from pureward.data.writers.own import import_episodes
honest, written = writing._write, []
def write(group, number, episode):
    honest(group, number, episode)
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
writing._write = write
import_episodes(sys.argv[1], Path(sys.argv[2]))
"""


@pytest.mark.slow
def test_a_killed_import_leaves_no_dataset_and_can_be_repeated(tmp_path):
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", IMAGES)
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(tmp_path / "new")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not os.path.lexists(tmp_path / "new")
    assert len(import_episodes(tmp_path, tmp_path / "new")) == 3
    assert not list(tmp_path.glob(".partial*"))
