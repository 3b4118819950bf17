"""Folders of images."""

import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

import pureward

IMAGES = np.random.default_rng(0).integers(0, 256, (12, 20, 30, 3), dtype=np.uint8)


def write(folder, images, suffix="png", mode="RGB"):
    folder.mkdir(parents=True)
    for number, image in enumerate(images):
        Image.fromarray(image).convert(mode).save(folder / f"frame_{number}.{suffix}")
    return folder


def test_a_folder_of_images_is_an_episode_in_the_order_of_numbers(tmp_path):
    write(tmp_path / "one", IMAGES)
    (tmp_path / "one" / "notes.txt").write_text("not an image")
    (tmp_path / "one" / "._frame_0.png").write_text("not an image either")
    dataset = pureward.read_episodes(tmp_path / "one", size=None)
    assert (len(dataset), dataset.lossy, dataset[0].rated) == (1, False, False)
    frames = dataset[0].frames
    assert torch.equal(frames[:], torch.from_numpy(IMAGES).permute(0, 3, 1, 2))
    assert torch.equal(frames[[9, 2]], torch.from_numpy(IMAGES[[9, 2]]).permute(0, 3, 1, 2))


def test_decimal_names_of_unclear_order_are_refused(tmp_path):
    write(tmp_path / "a", IMAGES[:4])
    for number, time in enumerate(("9.00", "9.05", "9.10", "10.00")):
        (tmp_path / "a" / f"frame_{number}.png").rename(tmp_path / "a" / f"{time}.png")
    frames = pureward.read_episodes(tmp_path / "a", size=None)[0].frames[:]
    assert torch.equal(frames, torch.from_numpy(IMAGES[:4]).permute(0, 3, 1, 2))
    (tmp_path / "a" / "9.10.png").rename(tmp_path / "a" / "9.1.png")
    with pytest.raises(pureward.InputError, match=r"got 9.1.png and 9.05.png, .* rename"):
        pureward.read_episodes(tmp_path / "a")


@pytest.mark.parametrize("suffix", ["png", "jpg"])
@pytest.mark.parametrize(("orientation", "turns"), [(1, 0), (3, 2), (6, -1), (8, 1)])
def test_an_image_is_read_as_it_is_shown(suffix, orientation, turns, tmp_path):
    stored = np.zeros((16, 32, 3), np.uint8)
    stored[:, :8] = 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    (tmp_path / "one").mkdir()
    for name in ("a", "b"):
        Image.fromarray(stored).save(tmp_path / "one" / f"{name}.{suffix}", exif=exif)
    frames = pureward.read_episodes(tmp_path / "one", size=None)[0].frames[:]
    shown = torch.from_numpy(np.rot90(stored, turns).copy()).permute(2, 0, 1)
    assert torch.equal(frames, torch.stack([shown, shown]))


def test_a_folder_of_folders(tmp_path):
    write(tmp_path / "all" / "ep_10", IMAGES[:3], "jpg")
    write(tmp_path / "all" / "ep_9", IMAGES[:5], "jpg")
    dataset = pureward.read_episodes(tmp_path / "all")
    assert ([len(e) for e in dataset], dataset.lossy) == ([4, 2], True)
    write(tmp_path / "tagged" / "train" / "a", IMAGES[:3])
    write(tmp_path / "tagged" / "failure" / "a", IMAGES[:4])
    assert [e.split for e in pureward.read_episodes(tmp_path / "tagged")] == ["train", "failure"]


def test_a_misspelt_folder_of_a_split_is_refused(tmp_path):
    for split in ("train", "val"):
        write(tmp_path / split / "a", IMAGES[:3])
    with pytest.raises(pureward.InputError, match="train, held-out and failure, got val; rename"):
        pureward.read_episodes(tmp_path)


def test_a_jpeg_that_is_named_png_is_lossy(tmp_path):
    folder = write(tmp_path / "one", IMAGES[:3])
    Image.fromarray(IMAGES[0]).save(folder / "frame_0.png", format="JPEG")
    assert pureward.read_episodes(folder).lossy


def test_an_empty_folder_and_other_files_are_named(tmp_path):
    with pytest.raises(pureward.InputError, match="not a dataset but an empty folder; check"):
        pureward.read_episodes(tmp_path)
    Image.fromarray(IMAGES[0]).save(tmp_path / "0.bmp")
    with pytest.raises(pureward.InputError, match=r"images must be \.png or \.jpg"):
        pureward.read_episodes(tmp_path)


@pytest.mark.parametrize("mode", ["RGBA", "L", "P", "LA", "1", "CMYK"])
def test_other_modes_become_colours(mode, tmp_path):
    suffix = "jpg" if mode == "CMYK" else "png"
    write(tmp_path / "one", IMAGES[:3], suffix, mode)
    with Image.open(tmp_path / "one" / f"frame_1.{suffix}") as stored:
        wanted = np.asarray(stored.convert("RGB"))
    frames = pureward.read_episodes(tmp_path / "one", size=None)[0].frames
    assert np.array_equal(frames[1].permute(1, 2, 0).numpy(), wanted)


def _deep(folder):
    for number in range(3):
        Image.fromarray(np.full((20, 30), 40_000, np.uint16)).save(folder / f"frame_{number}.png")


def _deep_colour(folder):
    """PNG of 16 bits per channel, which Pillow cannot write but opens as 8 bits."""
    rows = np.zeros((20, 1 + 30 * 6), np.uint8).tobytes()
    header = struct.pack(">IIBBBBB", 30, 20, 16, 2, 0, 0, 0)
    written = b"\x89PNG\r\n\x1a\n"
    for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")):
        checksum = zlib.crc32(kind + data)
        written += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
    (folder / "frame_1.png").write_bytes(written)


def _bomb(folder):
    """A header that declares 60,000 × 60,000 pixels."""
    data = bytearray((folder / "frame_1.png").read_bytes())
    data[16:24] = (60_000).to_bytes(4, "big") * 2
    (folder / "frame_1.png").write_bytes(data)


def _link(folder):
    (folder / "frame_1.png").rename(folder.parent / "secret.png")
    (folder / "frame_1.png").symlink_to(folder.parent / "secret.png")


def _replace(written):
    return lambda folder: (folder / "frame_1.png").write_bytes(written)


DAMAGES = {
    "16 bits": (_deep, "must have 8 bits per channel, got 16"),
    "16 bits of colour": (_deep_colour, "frame_1.png: images must have 8 bits .* got 16"),
    "bomb": (_bomb, "frame_1.png: "),
    "link": (_link, "frame_1.png must lie in .* and it links to"),
    "empty": (_replace(b""), "frame_1.png: cannot be read"),
    "postscript": (_replace(b"%!PS-Adobe-3.0 EPSF-3.0\n"), "frame_1.png: cannot be read"),
    "another size": (
        lambda f: Image.new("RGB", (8, 8)).save(f / "frame_1.png"),
        r"one: images of an episode must all be \(20, 30, 3\), got \(8, 8, 3\)",
    ),
    "one image": (
        lambda f: [(f / f"frame_{n}.png").unlink() for n in (1, 2)],
        "one: an episode needs at least two frames",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_bad_images_are_refused_in_a_sentence(name, tmp_path):
    damage, sentence = DAMAGES[name]
    damage(write(tmp_path / "one", IMAGES[:3]))
    with pytest.raises(pureward.InputError, match=sentence):
        pureward.read_episodes(tmp_path / "one")[0].frames[:]


def test_names_of_images_are_refused(tmp_path):
    write(tmp_path / "one", IMAGES[:3])
    with pytest.raises(pureward.InputError, match="have no names of images"):
        pureward.read_episodes(tmp_path / "one", images="front")
