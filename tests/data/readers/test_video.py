"""Videos: every frame exactly once, at any rate, and nothing from elsewhere."""

import struct

import av
import numpy as np
import pytest
import torch

import pureward
from films import write_film

COUNT = 40
IMAGES = np.repeat(np.arange(COUNT, dtype=np.uint8)[:, None, None, None] * 6, 48, axis=1)
IMAGES = np.tile(IMAGES, (1, 1, 64, 3))
IMAGES[:, :, :8] = 255 - IMAGES[:, :, :8]
FRAMES = torch.from_numpy(IMAGES).permute(0, 3, 1, 2)


def read(path, **options):
    return pureward.read_episodes(path, **({"size": None} | options))


# The two rows of a matrix that shows a frame turned to the right, upside down and to the left.
TURNS = {1: (0, 1, -1, 0), 2: (-1, 0, 0, -1), 3: (0, -1, 1, 0)}


@pytest.mark.parametrize("turns", TURNS)
def test_a_video_is_read_as_it_is_shown(turns, tmp_path):
    file = write_film(tmp_path / "a.mp4", IMAGES, "libx264rgb", "rgb24", qp="0")
    whole = bytearray(file.read_bytes())
    a, b, c, d = (number << 16 for number in TURNS[turns])
    matrix = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    place = whole.index(b"tkhd") + 4 + 40  # version, times, track, duration, layer, volume
    whole[place : place + len(matrix)] = matrix
    file.write_bytes(whole)
    (episode,) = read(file)
    shown = FRAMES.rot90(-turns, (2, 3))
    assert torch.equal(episode.frames[:], shown)
    assert torch.equal(episode.frames[[30, 3]], shown[[30, 3]])


@pytest.mark.parametrize("name", ["a.mkv", "a.avi"])
def test_a_lossless_video_is_read_exactly(name, tmp_path):
    dataset = read(write_film(tmp_path / name, IMAGES))
    (episode,) = dataset
    assert (len(episode), episode.rated, dataset.lossy) == (COUNT - 1, False, False)
    assert episode.frames.shape == (COUNT, 3, 48, 64)
    assert torch.equal(episode.frames[:], FRAMES)
    assert torch.equal(torch.cat(list(episode.frames.clips(7))), FRAMES)
    assert torch.equal(episode.frames[[30, 3]], FRAMES[[30, 3]])


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("a.mp4", "libx264", {}),
        ("short-groups.mp4", "libx264", {"g": "5"}),
        ("a.mkv", "libx264", {"bf": "3"}),
        ("a.ts", "libx264", {}),
        ("a.avi", "mpeg4", {"bf": "2"}),
        ("a.webm", "libvpx-vp9", {"deadline": "realtime", "cpu-used": "8"}),
    ],
)
def test_any_rows_are_those_of_decoding_all(name, codec, options, tmp_path):
    """B-frames are stored out of order, and reading some rows begins at a key frame."""
    path = write_film(tmp_path / name, IMAGES, codec, "yuv420p", **options)
    with av.open(str(path)) as container:
        decoded = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    wanted = torch.from_numpy(np.stack(decoded)).permute(0, 3, 1, 2)
    dataset = read(path)
    assert dataset.lossy
    frames = dataset[0].frames
    assert torch.equal(frames[:], wanted)
    for rows in ([0], [7], [COUNT - 1], [2, 3, 33], [11, 12, 13]):
        assert torch.equal(frames[rows], wanted[rows])


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv"])
def test_a_variable_rate_neither_repeats_nor_drops_a_frame(name, tmp_path):
    times = np.random.default_rng(1).integers(5, 400, COUNT).cumsum().tolist()
    codec = ("libx264rgb", "rgb24") if name.endswith("mp4") else ("ffv1", "bgr0")
    options = {"qp": "0"} if name.endswith("mp4") else {}
    path = write_film(tmp_path / name, IMAGES, *codec, times=times, **options)
    assert torch.equal(read(path)[0].frames[:], FRAMES)


def test_a_video_that_was_cut_without_decoding_shows_what_is_left(tmp_path):
    write_film(tmp_path / "a.mp4", IMAGES, "libx264rgb", "rgb24", qp="0", g="10")
    with av.open(str(tmp_path / "a.mp4")) as whole, av.open(str(tmp_path / "b.mp4"), "w") as cut:
        stream = cut.add_stream_from_template(whole.streams.video[0])
        for packet in whole.demux(video=0):
            if packet.size:  # times below 0 become an edit list, as ffmpeg -ss TIME -c copy has it
                packet.pts -= int(1.5 / packet.time_base)
                packet.dts -= int(1.5 / packet.time_base)
                packet.stream = stream
                cut.mux(packet)
    (episode,) = read(tmp_path / "b.mp4")
    assert torch.equal(episode.frames[:], FRAMES[15:])
    assert torch.equal(episode.frames[[20, 1]], FRAMES[[35, 16]])


def test_alpha_is_dropped_and_ten_bits_become_eight(tmp_path):
    alpha = np.full((*IMAGES.shape[:3], 1), 77, np.uint8)
    path = write_film(tmp_path / "a.mov", np.concatenate([IMAGES, alpha], -1), "png", "rgba")
    assert torch.equal(read(path)[0].frames[:], FRAMES)
    deep = write_film(tmp_path / "b.mp4", IMAGES, "libx264", "yuv420p10le")
    assert (read(deep)[0].frames[:].float() - FRAMES).abs().mean() < 4
    depth = write_film(tmp_path / "c.mkv", IMAGES, "ffv1", "gray16le")
    with pytest.raises(pureward.InputError, match="grey videos must have 8 bits per pixel, got 16"):
        read(depth)[0]


def test_a_folder_of_videos(tmp_path):
    for split, count in (("train", 5), ("failure", 9)):
        (tmp_path / split).mkdir()
        write_film(tmp_path / split / "a.mkv", IMAGES[:count])
    dataset = read(tmp_path, size=(64, 64))
    assert [(e.split, len(e)) for e in dataset] == [("train", 4), ("failure", 8)]
    assert dataset[0].frames.shape == (5, 3, 64, 64)


@pytest.mark.parametrize("keep", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("name", ["fast.mp4", "a.mp4", "a.mkv", "a.avi"])
def test_a_truncated_video_is_refused(name, keep, tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (20, 48, 64, 3), dtype=np.uint8)
    path = tmp_path / name
    options = {"movflags": "faststart"} if name == "fast.mp4" else {}
    with av.open(str(path), "w", container_options=options) as container:
        stream = container.add_stream("libx264", rate=10)
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        for image in noise:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data))])
    with pytest.raises(pureward.InputError, match=f"{name}: .*(cannot be read|cut off|no frame)"):
        read(path)[0].frames[:]


def test_the_cause_is_told_without_a_number_or_the_file_again(tmp_path):
    (tmp_path / "a.mp4").write_bytes(b"hello" * 100)
    with pytest.raises(pureward.InputError, match=r"a.mp4: cannot be read \(Invalid data found"):
        read(tmp_path / "a.mp4")


def test_arrays_beside_videos_are_not_ignored(tmp_path):
    write_film(tmp_path / "a.mkv", IMAGES)
    np.savez(tmp_path / "a.npz", rewards=np.zeros(len(IMAGES) - 1))
    with pytest.raises(pureward.InputError, match=r"of one format, got a.mkv and a.npz; move"):
        read(tmp_path)
    read(tmp_path / "a.mkv")


def test_a_playlist_named_as_a_video_opens_no_other_file(tmp_path):
    """FFmpeg would recognise it by its content and open what it lists."""
    secret = write_film(tmp_path / "secret.mkv", IMAGES)
    folder = tmp_path / "data"
    folder.mkdir()
    playlists = (f"ffconcat version 1.0\nfile {secret}\n", f"#EXTM3U\n{secret}\n")
    for number, text in enumerate(playlists):
        (folder / f"{number}.mp4").write_text(text)
        with pytest.raises(pureward.InputError, match=f"{number}.mp4: cannot be read"):
            read(folder / f"{number}.mp4")


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    secret = write_film(tmp_path / "secret.mkv", IMAGES[:5])
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.mkv").symlink_to(secret)
    with pytest.raises(pureward.InputError, match="a.mkv must lie in .*data, and it links to"):
        read(tmp_path / "data")


def test_a_link_is_read_by_its_own_name(tmp_path):
    write_film(tmp_path / "film.mkv", IMAGES)
    (tmp_path / "film.mkv").rename(tmp_path / "content")
    (tmp_path / "film.mkv").symlink_to("content")
    assert len(pureward.read_episodes(tmp_path)[0].frames[:]) == len(IMAGES)


def test_a_file_without_pictures_is_refused(tmp_path):
    with av.open(str(tmp_path / "sound.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=8000)
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        sound.rate = 8000
        container.mux(stream.encode(sound))
        container.mux(stream.encode())
    with pytest.raises(pureward.InputError, match="must have a video stream of a known codec, and"):
        read(tmp_path / "sound.mp4")


def test_an_online_reward_learns_from_videos(tmp_path):
    for number in range(6):
        write_film(tmp_path / f"{number}.mkv", IMAGES[:6])
    reward = pureward.OnlineReward(tmp_path, prior=0.5, stack=2, device="cpu")
    stacked = np.stack([IMAGES[:2], IMAGES[1:3]], axis=1)
    assert reward(stacked).shape == (2,)
    reward.save(tmp_path / "reward")
    spec = pureward.load_reward(tmp_path / "reward").spec
    assert spec.channels == "2 consecutive RGB images, oldest first"
    assert spec.images == ()
    with pytest.raises(pureward.InputError, match="annotated episodes need rewards, and episode 0"):
        pureward.OnlineReward(annotations=tmp_path, method="nn-purl", device="cpu")
