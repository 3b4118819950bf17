# SPDX-License-Identifier: Apache-2.0
"""The fused kernels compared with the plain modules, on CUDA or in Triton's interpreter."""

import os
from dataclasses import replace

import pytest
import torch

ON_CUDA = torch.cuda.is_available()
if not ON_CUDA:
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are first imported
pytest.importorskip("triton", reason="needs Triton: pip install -e '.[kernels]'")

from pureward.errors import InputError  # noqa: E402
from pureward.kernels.rewards import distortion, head, risk, tiles, trunk, weights  # noqa: E402
from pureward.rewards.config import RewardConfig  # noqa: E402
from pureward.rewards.discriminator import Discriminator, measured  # noqa: E402
from pureward.rewards.network import NetworkConfig, ResidualCNN  # noqa: E402
from pureward.rewards.risks.pu import nnpu, pn, upu  # noqa: E402
from pureward.rewards.view import View, apply, sample_distortions  # noqa: E402

DEVICE = torch.device("cuda" if ON_CUDA else "cpu")
DTYPE = torch.bfloat16 if ON_CUDA else torch.float32
TOLERANCE = 3e-2 if ON_CUDA else 3e-5
# The interpreter's cost is per program, not per pixel.
BLOCK = 64 if ON_CUDA else 1024


@pytest.fixture(autouse=True)
def _few_programs(monkeypatch):
    monkeypatch.setattr(weights, "PROGRAMS", 16 if ON_CUDA else 8)
    monkeypatch.setattr(tiles, "ENOUGH_TILES", 1)
    monkeypatch.setattr(distortion, "BLOCK", BLOCK)


def some_frames(batch: int, channels: int, seed: int = 0) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    frames = torch.randint(0, 256, (batch, channels, 32, 32), dtype=torch.uint8, generator=rng)
    return frames.to(DEVICE)


def unpacked(packed: torch.Tensor, images: int) -> torch.Tensor:
    batch, height, width, _ = packed.shape
    colours = packed.view(batch, height, width, -1, 4)[..., :images, :3]
    return colours.permute(0, 3, 4, 1, 2).reshape(batch, 3 * images, height, width).float()


@pytest.mark.parametrize(
    ("images", "config"),
    [
        (1, View.off()),
        (3, View.off()),
        (2, View.only(flip=True)),
        (1, View.only(crop=0.8)),
        (2, View.only(crop=0.8, shift=0.1)),
        (1, View.only(shift=0.1)),
        (1, View.only(brightness=0.3)),
        (2, View.only(contrast=(0.5, 2.0))),
        (1, View.only(saturation=(0.5, 2.0))),
        (1, View.only(hue=0.5)),
        (3, replace(View(), noise=0.0)),
    ],
)
def test_distortions_equal_plain_distortions(images, config):
    frames = some_frames(2, 3 * images)
    distortions = sample_distortions(frames.shape, config, device=DEVICE)
    packed = distortion.distorted(frames, distortions.parameters, config, None, DTYPE)
    assert packed.shape[-1] == 4 * distortion.image_slots(images)
    expected = apply(frames, distortions, config)
    torch.testing.assert_close(unpacked(packed, images), expected, atol=TOLERANCE, rtol=0)
    slots = packed.view(*packed.shape[:3], -1, 4)
    assert slots[..., 3].abs().max() == 0
    assert slots[..., images:, :].abs().sum() == 0


@pytest.mark.parametrize("sides", [(34, 34), (32, 40), (40, 40)])
def test_frames_of_any_size_are_distorted_without_touching_their_neighbours(sides, monkeypatch):
    # Room after the result shows what is written past its end.
    room = torch.full((4 * 8 * sides[0] * sides[1],), -7.0, device=DEVICE)
    result = room.view(4, *sides, 8)[:2]
    monkeypatch.setattr(distortion.torch, "empty", lambda *shape, **_: result.view(shape))
    rng = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (2, 3, *sides), dtype=torch.uint8, generator=rng).to(DEVICE)
    view = View.only(contrast=(0.5, 2.0))
    distortions = sample_distortions(frames.shape, view, device=DEVICE)
    packed = distortion.distorted(frames, distortions.parameters, view, None, torch.float32)
    monkeypatch.undo()
    expected = apply(frames, distortions, view)
    torch.testing.assert_close(unpacked(packed, 1), expected, atol=1e-5, rtol=0)
    assert (room[len(room) // 2 :] == -7).all()


def test_noise_is_uniform_and_depends_on_the_seed():
    config = View.only(noise=16.0)
    frames = torch.full((4, 6, 32, 32), 128, dtype=torch.uint8, device=DEVICE)
    distortions = sample_distortions(frames.shape, View.off(), device=DEVICE)
    one, same, other = (
        distortion.distorted(
            frames, distortions.parameters, config, torch.tensor([s], device=DEVICE), torch.float32
        )
        for s in (7, 7, 8)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    levels = unpacked(one, 2) * 255 - 128
    assert float(levels.abs().max()) == pytest.approx(16, abs=0.01)
    assert float(levels.mean()) == pytest.approx(0, abs=0.3)
    assert float(levels.std()) == pytest.approx(16 / 3**0.5, rel=0.02)
    flat = levels.permute(1, 0, 2, 3).flatten(1)
    assert (torch.corrcoef(flat) - torch.eye(6, device=DEVICE)).abs().max() < 0.08


@pytest.mark.parametrize(("taps", "channels", "blocks"), [(2, 6, 1), (4, 9, 2)])
def test_map_and_gradients_equal_plain_ones(taps, channels, blocks, monkeypatch):
    monkeypatch.setattr(tiles, "TILES", {})
    monkeypatch.setattr(tiles, "DEFAULT", tiles.Tile(BLOCK, 4, 2, taps))
    shape = {"frame_channels": channels, "height": 32, "width": 32}
    config = NetworkConfig(**shape, stage_channels=(16, 32), stage_blocks=blocks)
    network = ResidualCNN(config).to(DEVICE, memory_format=torch.channels_last)
    frames = some_frames(2, channels)
    off = View.off()
    distortions = sample_distortions(frames.shape, off, device=DEVICE)
    packed = distortion.distorted(frames, distortions.parameters, off, None, DTYPE)
    fused = trunk.last_map(network, packed).permute(0, 3, 1, 2)
    plain = frames.float() / 255
    for stage in network.stages:
        plain = stage(plain)
    torch.testing.assert_close(fused.float(), plain, atol=TOLERANCE, rtol=0)
    outer = torch.randn(plain.shape, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    parameters = list(network.stages.parameters())
    expected = torch.autograd.grad(plain, parameters, outer)
    ours = torch.autograd.grad(fused, parameters, outer.to(fused.dtype))
    for parameter, exact, gradient in zip(parameters, expected, ours, strict=True):
        assert gradient.shape == parameter.shape
        # Rounding to bfloat16 at every layer changes gradients: by up to 0.093 on an H200.
        assert float((exact - gradient).norm()) < 5 * TOLERANCE * float(exact.norm())
    with torch.no_grad():
        scored = trunk.last_map(network, packed).permute(0, 3, 1, 2)
    assert torch.equal(scored, fused)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_read_out_equals_plain_read_out(dropout):
    config = NetworkConfig(height=32, width=40, stage_channels=(16, 32), dropout=dropout)
    network = ResidualCNN(config).to(DEVICE)
    last = torch.randn(5, 8, 10, 32, device=DEVICE, requires_grad=True)
    seed = torch.tensor([3], device=DEVICE)
    ours = head.read_out(last, network.head, seed, dropout)
    # Features that dropout kept have a gradient.
    outer = torch.linspace(0.5, 2.0, 5, device=DEVICE)
    inputs = [last, *network.head.parameters()]
    by_last, by_weight, by_bias = torch.autograd.grad(ours, inputs, outer)
    positive = last.detach() > 0
    kept = (by_last != 0).float() / (1 - dropout)
    assert float(kept[positive].mean()) == pytest.approx(1.0, abs=0.05)
    assert kept[~positive].sum() == 0
    features = (last.relu() * kept).permute(0, 3, 1, 2).flatten(1)
    plain = network.head(features).squeeze(1)
    torch.testing.assert_close(ours, plain, atol=1e-4, rtol=0)
    expected = torch.autograd.grad(plain, inputs, outer)
    for ours_by, exact in zip((by_last, by_weight, by_bias), expected, strict=True):
        torch.testing.assert_close(ours_by, exact, atol=1e-4, rtol=0)


def test_dropout_depends_on_the_seed():
    network = ResidualCNN(NetworkConfig(height=32, width=32, stage_channels=(16, 16))).to(DEVICE)
    last = torch.rand(4, 8, 8, 16, device=DEVICE)
    one, same, other = (
        head.read_out(last, network.head, torch.tensor([s], device=DEVICE), 0.5) for s in (7, 7, 8)
    )
    assert torch.equal(one, same)
    assert not torch.isclose(one, other).any()
    assert len(one.unique()) == 4


@pytest.mark.parametrize("loss", ["logistic", "sigmoid"])
@pytest.mark.parametrize("kind", [pn, upu, nnpu])
@pytest.mark.parametrize("shift", [-3.0, 0.0, 30.0])
@pytest.mark.parametrize("even", [False, True])
def test_risk_equals_plain_risk(kind, loss, shift, even):
    """A large shift makes the discriminator win, so that the negative part is violated."""
    rng = torch.Generator().manual_seed(1)
    logits = torch.randn(12, generator=rng).to(DEVICE)
    logits[:5] += shift
    logits[5:] -= shift
    logits.requires_grad_()
    prior = torch.tensor(0.3, device=DEVICE)
    settings = {"prior": prior, "slack": 0.1, "step_back": 0.7, "even": even}
    result = kind(logits[:5], logits[5:], loss=loss, **settings)
    (expected,) = torch.autograd.grad(result.objective, logits)
    metrics, gradient = risk.differentiated(kind, logits.detach(), 5, loss=loss, **settings)
    torch.testing.assert_close(gradient, expected, atol=1e-6, rtol=1e-5)
    exact = measured(result, logits[:5], logits[5:])
    torch.testing.assert_close(metrics, exact, atol=1e-6, rtol=1e-5)
    assert bool(metrics[4]) == (kind is not pn and shift == 30)


# The interpreter's exp(−x) overflows to infinity before sigmoid returns 0, as on a GPU.
@pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning")
@pytest.mark.parametrize("kind", [pn, upu, nnpu])
@pytest.mark.parametrize("even", [False, True])
def test_risk_equals_plain_risk_at_extreme_logits(kind, even):
    extremes = [-3e38, 0.0, 3e38, 3e38, 3e38, -3e38, 1.0]
    logits = torch.tensor(extremes, device=DEVICE, requires_grad=True)
    prior = torch.tensor(0.9, device=DEVICE)
    settings = {"prior": prior, "slack": 0.0, "step_back": 1.0, "loss": "logistic", "even": even}
    result = kind(logits[:3], logits[3:], **settings)
    (expected,) = torch.autograd.grad(result.objective, logits)
    metrics, gradient = risk.differentiated(kind, logits.detach(), 3, **settings)
    assert metrics.isfinite().all()
    torch.testing.assert_close(gradient, expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(metrics[:5], measured(result, logits[:3], logits[3:])[:5])


@pytest.mark.parametrize("even", [False, True])
def test_update_with_the_fused_risk_equals_plain_update(even, monkeypatch):
    config = RewardConfig(even=even, network=NetworkConfig(height=32, width=32, dropout=0.0))
    positive, unlabeled = some_frames(4, 3).split(2)

    def updated(fused: bool) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        discriminator = Discriminator(config, risk="nnpu", prior=0.3, device=DEVICE)
        monkeypatch.setattr(discriminator, "_risk_is_fused", lambda _: fused)
        discriminator.update(positive, unlabeled)
        return discriminator.network.state_dict()

    torch.testing.assert_close(updated(True), updated(False))


def test_risk_rejects_bad_input_like_plain_risk():
    settings = {"prior": torch.tensor(0.5), "slack": 0.0, "step_back": 1.0, "loss": "logistic"}
    with pytest.raises(InputError, match="unlabeled_logits must hold at least one sample"):
        risk.differentiated(nnpu, torch.zeros(3), 3, **settings)
    with pytest.raises(InputError, match="slack must lie in"):
        risk.differentiated(nnpu, torch.zeros(3), 2, **settings | {"slack": -1.0})
    with pytest.raises(InputError, match="unknown loss 'hinge'"):
        risk.differentiated(nnpu, torch.zeros(3), 2, **settings | {"loss": "hinge"})
    assert risk.supports(upu, 512)
    assert not risk.supports(lambda *_, **__: None, 512)


def test_maps_without_whole_cells_are_not_supported():
    assert trunk.supports(NetworkConfig(height=48, width=80))
    assert trunk.supports(NetworkConfig(height=40, width=40, stage_channels=(16, 32)))
    for sides in ((40, 64), (64, 40)):  # 5 pixels after three stages
        assert not trunk.supports(NetworkConfig(height=sides[0], width=sides[1]))


def test_supported_channels():
    assert trunk.supports(NetworkConfig())
    assert trunk.supports(NetworkConfig(frame_channels=24))
    assert not trunk.supports(NetworkConfig(frame_channels=51))
    assert not trunk.supports(NetworkConfig(stage_channels=(12, 32, 32)))
