# SPDX-License-Identifier: Apache-2.0
"""Every distortion against Kornia's arithmetic on the same distortions parameters."""

import math

import kornia
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pureward.errors import InputError
from pureward.rewards.view import (
    PARAMETERS,
    Distortions,
    View,
    apply,
    sample_distortions,
    viewed,
)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some_frames(batch: int = 5, channels: int = 3, side: int = 32, seed: int = 1) -> torch.Tensor:
    """Random colours, including black, white, grey and single-channel pixels."""
    frames = torch.randint(
        0, 256, (batch, channels, side, side), dtype=torch.uint8, generator=rng(seed)
    )
    frames[:, :, 0, 0], frames[:, :, 0, 1], frames[:, :, 0, 2] = 0, 255, 77
    frames[:, :, 1, :8] = 0
    frames[:, 0::3, 1, :8] = 200
    return frames


def ours_and_unit(config: View, channels: int = 3):
    """Return our result, the undistorted images in [0, 1] and the distortions."""
    frames = some_frames(channels=channels)
    distortions = sample_distortions(frames.shape, config, device="cpu", generator=rng(2))
    return apply(frames, distortions, config), frames.float() / 255, distortions


def test_flip_is_kornias():
    ours, x, distortions = ours_and_unit(View.only(flip=True))
    flipped = distortions.column("flip") > 0.5
    assert 0 < int(flipped.sum()) < len(flipped)
    expected = torch.where(flipped.view(-1, 1, 1, 1), kornia.geometry.hflip(x), x)
    torch.testing.assert_close(ours, expected, atol=2e-6, rtol=0)


@pytest.mark.parametrize("flip", [False, True])
def test_crop_resized_back_is_kornias_warp(flip):
    config = View.only(crop=0.8, shift=0.1, flip=flip)
    ours, x, distortions = ours_and_unit(config)
    side = x.shape[-1]
    matrix = torch.zeros(len(x), 2, 3)
    # Forward map of pixel centres: source = offset·side + (i + ½)·crop − ½, solved for i.
    for row, name in ((0, "left"), (1, "top")):
        matrix[:, row, row] = 1 / 0.8
        matrix[:, row, 2] = -(distortions.column(name) * side - 0.5) / 0.8 - 0.5
    expected = kornia.geometry.warp_affine(
        x, matrix, (side, side), padding_mode="border", align_corners=False
    )
    if flip:
        flipped = (distortions.column("flip") > 0.5).view(-1, 1, 1, 1)
        expected = torch.where(flipped, expected.flip(-1), expected)
    torch.testing.assert_close(ours, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("crop", "low", "high"), [(0.8, 0.0, 0.2), (1.0, -0.1, 0.1)])
def test_a_window_moves_about_the_centre(crop, low, high):
    view = View.only(crop=crop, shift=0.1)
    distortions = sample_distortions((500, 3, 32, 32), view, device="cpu", generator=rng())
    for name in ("top", "left"):
        column = distortions.column(name)
        assert low - 1e-6 <= float(column.min()) < low + 0.01
        assert high - 0.01 < float(column.max()) <= high + 1e-6


def test_scoring_uses_the_centred_window_of_training():
    view = View(crop=0.5, shift=0.25)
    assert view.scored == View.only(crop=0.5)
    assert not view.scored.is_random
    ramp = torch.arange(0, 256, 8, dtype=torch.uint8).expand(2, 3, 32, 32)
    # Output column i shows the source at 16·(i + ½)/32 + 8 − ½ columns, of 8 levels each.
    expected = 8 * (8 - 0.5 + 0.5 * (torch.arange(32) + 0.5))
    torch.testing.assert_close(viewed(ramp, view.scored)[1, 2, 7] * 255, expected)


def test_a_shift_repeats_the_border():
    """Moved by −½, a ramp 0, 8, … shows column 0 on its left half and 0 to 15 on its right."""
    view = View.only(shift=0.5)
    ramp = torch.arange(0, 256, 8, dtype=torch.uint8).expand(1, 3, 32, 32)
    parameters = sample_distortions(
        ramp.shape, view, device="cpu", generator=rng()
    ).parameters.clone()
    parameters[:, PARAMETERS.index("left")] = -0.5
    shown = apply(ramp, Distortions(parameters=parameters, noise=None), view)[0, 0, 9] * 255
    expected = torch.cat([torch.zeros(16), 8.0 * torch.arange(16)])
    torch.testing.assert_close(shown, expected)


def test_a_view_that_is_not_random_uses_no_random_numbers():
    generator = rng(3)
    before = generator.get_state()
    viewed(some_frames(), View().scored, generator)
    assert torch.equal(generator.get_state(), before)


def test_brightness_is_kornias():
    ours, x, distortions = ours_and_unit(View.only(brightness=0.3))
    expected = kornia.enhance.adjust_brightness(x, distortions.column("brightness"))
    torch.testing.assert_close(ours, expected, atol=1e-6, rtol=0)


def test_contrast_is_kornias():
    ours, x, distortions = ours_and_unit(View.only(contrast=(0.5, 2.0)))
    expected = kornia.enhance.adjust_contrast_with_mean_subtraction(
        x, distortions.column("contrast")
    )
    torch.testing.assert_close(ours, expected, atol=1e-6, rtol=0)


def test_saturation_is_kornias():
    ours, x, distortions = ours_and_unit(View.only(saturation=(0.5, 2.0)))
    expected = kornia.enhance.adjust_saturation(x, distortions.column("saturation"))
    torch.testing.assert_close(ours, expected, atol=2e-6, rtol=0)


def test_hue_is_kornias():
    ours, x, distortions = ours_and_unit(View.only(hue=0.5))
    expected = kornia.enhance.adjust_hue(x, distortions.column("hue") * 2 * math.pi)
    torch.testing.assert_close(ours, expected, atol=2e-6, rtol=0)


def test_noise_is_added_and_clipped():
    ours, x, distortions = ours_and_unit(View.only(noise=16.0))
    assert distortions.noise is not None
    levels = (distortions.noise.float() / 255 * 2 - 1) * 16
    assert float(levels.min()) < -15.9
    assert float(levels.max()) > 15.9
    assert abs(float(levels.mean())) < 0.3
    torch.testing.assert_close(ours, (x + levels / 255).clamp(0, 1), atol=1e-6, rtol=0)


def test_all_together_in_the_documented_order():
    config = View()
    ours, x, distortions = ours_and_unit(config)
    assert distortions.noise is not None
    geometry = View.only(flip=True, crop=0.8, shift=0.1)
    still = Distortions(parameters=distortions.parameters, noise=None)
    x = apply((x * 255).round().to(torch.uint8), still, geometry)
    x = kornia.enhance.adjust_brightness(x, distortions.column("brightness"))
    x = kornia.enhance.adjust_contrast_with_mean_subtraction(x, distortions.column("contrast"))
    x = kornia.enhance.adjust_saturation(x, distortions.column("saturation"))
    x = kornia.enhance.adjust_hue(x, distortions.column("hue") * 2 * math.pi)
    x = (x + (distortions.noise.float() / 255 * 2 - 1) * 16 / 255).clamp(0, 1)
    torch.testing.assert_close(ours, x, atol=1e-5, rtol=0)


def test_off_is_the_identity():
    frames = some_frames()
    assert torch.equal(viewed(frames, View.off()), frames.float() / 255)


def test_distortions_fill_their_ranges():
    config = View()
    distortions = sample_distortions((2000, 3, 32, 32), config, device="cpu", generator=rng())
    ends = {"brightness": (-0.125, 0.125), "contrast": (0.5, 2), "saturation": (0.5, 2)}
    for name, (low, high) in (ends | {"hue": (-0.05, 0.05)}).items():
        column, margin = distortions.column(name), 0.01 * (high - low)
        assert low <= float(column.min()) < low + margin
        assert high - margin < float(column.max()) <= high
    assert float((distortions.column("flip") > 0.5).float().mean()) == pytest.approx(0.5, abs=0.05)


def test_cameras_share_the_distortions_but_not_the_contrast_mean():
    """Each camera comes out as if it had been distorted alone with the sample's parameters."""
    config = View()
    frames = some_frames(channels=9)
    distortions = sample_distortions(frames.shape, config, device="cpu", generator=rng(3))
    assert distortions.noise is not None
    together = apply(frames, distortions, config)
    for camera in range(3):
        part = slice(3 * camera, 3 * camera + 3)
        alone = Distortions(
            parameters=distortions.parameters, noise=distortions.noise[:, part].contiguous()
        )
        expected = apply(frames[:, part].contiguous(), alone, config)
        torch.testing.assert_close(together[:, part], expected, atol=1e-6, rtol=0)


def test_same_generator_same_frames_and_chunks_do_not_matter(monkeypatch):
    frames, config = some_frames(batch=7), View()
    whole = viewed(frames, config, rng(5))
    monkeypatch.setattr("pureward.rewards.view.CPU_CHUNK_VALUES", 2 * frames[0].numel())
    torch.testing.assert_close(viewed(frames, config, rng(5)), whole, atol=1e-6, rtol=0)
    assert not torch.equal(viewed(frames, config, rng(6)), whole)


def test_input_frames_are_not_changed():
    frames = some_frames()
    before = frames.clone()
    viewed(frames, View(), rng())
    assert torch.equal(frames, before)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 3),
    st.sampled_from([3, 6]),
    st.tuples(*[st.floats(0, 1, width=32)] * len(PARAMETERS)),
    st.integers(0, 2**16),
)
def test_result_is_always_in_the_unit_range(batch, channels, unit, seed):
    config = View(crop=0.5, brightness=1.0, contrast=(0, 4), saturation=(0, 4), hue=0.5)
    frames = some_frames(batch, channels, 32, seed)
    distortions = sample_distortions(frames.shape, config, device="cpu", generator=rng(seed))
    low = torch.tensor([0, 0, 0, -1, 0, 0, -0.5])
    high = torch.tensor([1, 0.5, 0.5, 1, 4, 4, 0.5])
    extreme = (low + torch.tensor(unit) * (high - low)).expand(batch, -1)
    out = apply(frames, Distortions(parameters=extreme, noise=distortions.noise), config)
    assert out.isfinite().all()
    assert float(out.min()) >= 0
    assert float(out.max()) <= 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"crop": 0.0}, r"crop must lie in \[0.1, 1\], got 0.0"),
        ({"crop": 1.2}, "crop"),
        ({"shift": 0.6}, r"shift must lie in \[0, 0.5\], got 0.6"),
        ({"brightness": -0.1}, r"brightness must lie in \[0, 1\], got -0.1"),
        ({"hue": 0.6}, "hue"),
        ({"noise": float("nan")}, "noise"),
        ({"contrast": (2.0, 0.5)}, "contrast must be a range"),
        ({"saturation": (-1.0, 1.0)}, "saturation must be a range"),
        ({"saturation": (1.0,)}, r"must be a range 0 ≤ low ≤ high, got \(1.0,\); \(1, 1\)"),
        ({"saturation": 1.0}, "saturation must be a list of numbers, got 1.0"),
    ],
)
def test_bad_strengths_are_rejected(change, sentence):
    with pytest.raises(InputError, match=sentence):
        View(**change)
