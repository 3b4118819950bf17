"""Open videos that are used again: the same frames, whatever was read before."""

import os
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest
import torch

import pureward
from films import write_film
from pureward.data.readers import decoder

COUNT = 40
IMAGES = np.random.default_rng(0).integers(0, 256, (COUNT, 32, 48, 3), dtype=np.uint8)
LEROBOT = Path(__file__).parents[1] / "lerobot/films"


@pytest.fixture(autouse=True)
def none_open():
    decoder.close_idle()
    yield
    decoder.close_idle()


@pytest.fixture
def opened(monkeypatch):
    """The videos that decoders opened."""
    found = []
    honest = decoder.opened
    monkeypatch.setattr(decoder, "opened", lambda file: found.append(file.name) or honest(file))
    return found


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("a.mp4", "libx264", {"bf": "3", "g": "12"}),
        ("a.mkv", "libsvtav1", {"g": "2", "preset": "12"}),
        ("a.webm", "libvpx-vp9", {"deadline": "realtime", "cpu-used": "8"}),
        ("a.avi", "mpeg4", {"bf": "2"}),
    ],
)
def test_rows_in_any_order_are_those_of_decoding_all(name, codec, options, tmp_path):
    policy = os.sched_getscheduler(0)
    path = write_film(tmp_path / name, IMAGES, codec, "yuv420p", **options)
    assert os.sched_getscheduler(0) == policy
    with av.open(str(path)) as container:
        decoded = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    wanted = torch.from_numpy(np.stack(decoded)).permute(0, 3, 1, 2)
    frames = pureward.read_episodes(path, size=None)[0].frames
    order = [range(5), range(5, 9), range(COUNT), [39], [0], [38, 39], [3, 30], range(COUNT)]
    for rows in order:
        assert torch.equal(frames[list(rows)], wanted[list(rows)])
    one, other = frames.clips(3), frames.clips(7)  # at the same time
    parts = [(next(one), next(other)) for _ in range(5)]
    one.close()
    assert torch.equal(torch.cat([part for part, _ in parts]), wanted[:15])
    assert torch.equal(torch.cat([part for _, part in parts]), wanted[:35])
    assert torch.equal(torch.cat(list(other)), wanted[35:])
    assert torch.equal(frames[:], wanted)


def test_episodes_of_a_video_are_read_by_one_decoder(opened):
    dataset = pureward.read_episodes(LEROBOT, images="front")
    before = len(opened)
    for episode in dataset:
        episode.frames[:]
    assert len(opened) - before == 1
    dataset[0].frames[:]
    assert len(opened) - before == 1


def test_a_video_that_was_replaced_is_opened_again(tmp_path):
    path = write_film(tmp_path / "a.mkv", IMAGES[:5])
    assert pureward.read_episodes(path, size=None)[0].frames[:][0, 0, 0, 0] == IMAGES[0, 0, 0, 0]
    write_film(path, IMAGES[5:12])
    frames = pureward.read_episodes(path, size=None)[0].frames
    assert torch.equal(frames[:], torch.from_numpy(IMAGES[5:12]).permute(0, 3, 1, 2))


def test_few_videos_stay_open(tmp_path):
    for number in range(decoder._KEPT_OPEN + 3):
        write_film(tmp_path / f"{number}.mkv", IMAGES[:3])
    for episode in pureward.read_episodes(tmp_path):
        episode.frames[:]
    assert len(decoder._idle) == decoder._KEPT_OPEN


FORK = """
import os, sys, torch, pureward
torch.set_num_threads(1)
frames = pureward.read_episodes(sys.argv[1], size=None)[0].frames
first = frames[:3]
child = os.fork()
same = torch.equal(frames[:3], first) and torch.equal(frames[:][:3], first)
if child == 0:
    os._exit(0 if same else 3)
print(same, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
def test_a_forked_process_reads_too(tmp_path):
    """FFmpeg's threads are not in it."""
    large = IMAGES.repeat(8, axis=1).repeat(8, axis=2)
    path = write_film(tmp_path / "a.mp4", large, "libx264", "yuv420p")
    command = [sys.executable, "-W", "ignore", "-c", FORK, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split() == ["True", "0"], done.stderr
