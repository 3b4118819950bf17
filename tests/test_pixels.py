# SPDX-License-Identifier: Apache-2.0
"""Images as frames: values that are not colours are refused, on CUDA without a host sync."""

import numpy as np
import pytest
import torch

from pureward import OnlineReward, read_episodes
from pureward.errors import InputError
from pureward.hooks.scorer import Scorer
from pureward.pixels import batch_of, to_frames
from tiny import ONLINE_REWARD

RULE = r"floating-point images must lie in \[0, 1\], got {}; scale them to that range, or use uint8"


def spoilt(*shape: int, value: float) -> np.ndarray:
    images = np.full(shape, 0.5, np.float32)
    images.flat[-1] = value
    return images


@pytest.mark.parametrize(
    ("value", "got"),
    [(200.0, "0.5 to 200"), (-1.0, "-1 to 0.5"), (float("inf"), "0.5 to inf")],
)
def test_floats_that_are_not_colours_are_refused(value, got):
    for shape in ((2, 32, 32), (2, 32, 32, 3), (2, 3, 32, 32), (2, 2, 32, 32, 3)):
        images = spoilt(*shape, value=value)
        for given in (images, torch.from_numpy(images), torch.from_numpy(images).half()):
            with pytest.raises(InputError, match=f"^{RULE.format(got)}$"):
                to_frames(given)


def test_nan_is_told_with_its_place():
    images = np.full((5, 32, 32, 3), 0.5, np.float32)
    images[3, 4, 5, 0] = np.nan
    with pytest.raises(InputError, match=r"^images must be numbers, got NaN in image 3; repair"):
        to_frames(torch.from_numpy(images))
    with pytest.raises(InputError, match=r"episode 0: images must be numbers, got NaN in frame 3;"):
        read_episodes([images])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_a_fourth_channel_that_is_no_alpha_is_refused(dtype):
    """Four grey images, as `VecFrameStack` stacks them: the newest would be dropped."""
    images = np.random.default_rng(0).integers(2, size=(2, 64, 64, 4)).astype(dtype)
    for given in (images, images.transpose(0, 3, 1, 2)):
        with pytest.raises(
            InputError, match=r"alpha and must be constant.*; pass images\[..., :3]"
        ):
            to_frames(given)
    stack = to_frames(images.transpose(0, 3, 1, 2)[..., None])
    assert stack.shape == (2, 12, 64, 64)
    images[..., 3] = 1
    assert torch.equal(to_frames(images), to_frames(images[..., :3]))


@pytest.mark.parametrize("dtype", [object, "U1", np.uint16, np.longdouble, np.complex64])
def test_other_types_are_refused(dtype):
    with pytest.raises(
        InputError, match="^frames must be uint8 or floating point in .*; convert .* from 0 to 255"
    ):
        to_frames(np.zeros((2, 8, 8, 3), dtype))


def test_other_byte_orders_are_converted():
    images = np.random.default_rng(0).random((2, 64, 64, 3), np.float32)
    assert torch.equal(to_frames(images.astype(">f4")), to_frames(images))


def test_a_stack_of_no_images_is_refused():
    with pytest.raises(InputError, match=r"got shape \(2, 0, 8, 8, 3\); pass a batch of images"):
        to_frames(np.zeros((2, 0, 8, 8, 3), np.uint8))


def test_floats_that_are_rounded_are_clipped():
    assert to_frames(spoilt(1, 64, 64, 3, value=1.001)).max() == 255
    assert to_frames(spoilt(1, 64, 64, 3, value=-0.001)).min() == 0


def test_a_batch_needs_images():
    with pytest.raises(InputError, match="frames must have one size, got no images; pass images"):
        batch_of([])


def test_data_and_rewards_refuse_them_too():
    good, bad = spoilt(6, 64, 64, 3, value=0.5), spoilt(6, 64, 64, 3, value=200.0)
    with pytest.raises(InputError, match="^episode 1: floating-point images must lie in"):
        read_episodes([good, bad])
    reward = OnlineReward([good] * 4, config=ONLINE_REWARD, device="cpu", prior=0.5)
    for use in (reward, Scorer(reward).frames, lambda images: reward.observe(images, [False] * 6)):
        with pytest.raises(InputError, match="floating-point images must lie in"):
            use(bad)
    assert reward.frames.observed == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_cuda_a_later_call_refuses_them():
    good, bad = (torch.from_numpy(spoilt(2, 64, 64, 3, value=v)).cuda() for v in (0.5, np.nan))

    def without_sync(images: torch.Tensor) -> None:
        torch.cuda.set_sync_debug_mode("error")
        try:
            to_frames(images, "cuda")
        finally:
            torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()

    to_frames(good, "cuda")
    with pytest.raises(InputError, match=RULE.format("others or NaN before")):
        with torch.inference_mode():
            without_sync(bad)
        without_sync(good)
    assert to_frames(good, "cuda").shape == (2, 3, 64, 64)
    with pytest.raises(InputError, match="got NaN in image"):  # on the host it is at once
        to_frames(bad.cpu(), "cuda")
