# SPDX-License-Identifier: Apache-2.0
"""Table 3's network: shape, accepted and rejected frames."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from pureward.errors import InputError
from pureward.rewards.network import NetworkConfig, ResidualCNN, seeded_network


def frames(batch: int, channels: int = 3, height: int = 32, width: int = 32) -> torch.Tensor:
    rng = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (batch, channels, height, width), dtype=torch.uint8, generator=rng)


@pytest.mark.parametrize(("channels", "mflop"), [(3, 60.17), (6, 63.71)])
def test_table_3_at_64_pixels(channels, mflop):
    network = ResidualCNN(NetworkConfig(frame_channels=channels)).eval()
    with FlopCounterMode(display=False) as counter:
        out = network(frames(1, channels, 64, 64))
    assert out.shape == (1,)
    assert counter.get_total_flops() / 1e6 == pytest.approx(mflop, abs=0.01)
    convolutions = [m for m in network.modules() if isinstance(m, torch.nn.Conv2d)]
    assert [c.out_channels for c in convolutions] == [16] * 5 + [32] * 10
    assert all(c.kernel_size == (3, 3) for c in convolutions)
    assert network.head.in_features == 32 * 8 * 8


@pytest.mark.parametrize(("height", "width"), [(32, 32), (40, 96), (64, 32)])
def test_any_even_size_works(height, width):
    network = ResidualCNN(NetworkConfig(height=height, width=width))
    out = network(frames(2, 3, height, width))
    assert out.shape == (2,)
    assert out.dtype == torch.float32
    out.sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())


def test_uint8_frames_are_scaled_by_the_network():
    network = ResidualCNN(NetworkConfig(height=32, width=32)).eval()
    stored = frames(2)
    torch.testing.assert_close(network(stored), network(stored.float() / 255))


def test_a_stage_by_hand():
    """One stage without blocks, all weights 1: the sum of a 3×3 window, then a 2×2 maximum."""
    config = NetworkConfig(height=32, width=32, stage_channels=(1,), stage_blocks=0, dropout=0.0)
    network = ResidualCNN(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(0)
        network.stages[0].entry.weight.fill_(1)
        network.head.weight.fill_(1)
    x = torch.zeros(2, 3, 32, 32)
    x[0, 0, 0, 0] = 1.0  # seen by pooled pixel (0, 0) only
    x[1, 0, 1, 1] = 1.0  # seen by pooled pixels (0, 0), (0, 1), (1, 0), (1, 1)
    assert network(x).tolist() == [1.0, 4.0]


@torch.no_grad()
def test_dropout_halves_and_rescales_in_training_only():
    network = ResidualCNN(NetworkConfig(height=32, width=32))
    features = torch.ones(400, network.head.in_features)
    network.head.weight.fill_(1 / network.head.in_features)
    network.head.bias.zero_()
    rng = torch.Generator().manual_seed(0)
    dropped = network.train().read_out(features, rng)
    assert float(dropped.mean()) == pytest.approx(1.0, abs=0.01)
    assert float(dropped.std()) == pytest.approx((1 / network.head.in_features) ** 0.5, rel=0.1)
    assert torch.equal(network.read_out(features, rng.manual_seed(0)), dropped)
    torch.testing.assert_close(network.eval().read_out(features), torch.ones(400))


def test_dropout_of_a_quarter_rescales_by_four_thirds():
    config = NetworkConfig(height=32, width=32, stage_channels=(8, 8), dropout=0.25)
    network = ResidualCNN(config).train()
    with torch.no_grad():
        network.head.weight.fill_(1.0)
        network.head.bias.fill_(5.0)
        drawn = network.read_out(
            torch.ones(200, network.head.in_features), torch.Generator().manual_seed(0)
        )
    # Of 512 features 384 are left, ± 4 standard errors of a mean over 200.
    left = (drawn - 5.0) * 0.75
    assert torch.allclose(left, left.round(), atol=1e-2), "whole features"
    assert float(left.mean()) == pytest.approx(384, abs=4 * (512 * 0.25 * 0.75 / 200) ** 0.5)


def test_initial_weights_depend_on_the_seed_and_not_on_the_global_generator():
    state = torch.random.get_rng_state()
    config = NetworkConfig(height=32, width=32)
    a, b, c = (seeded_network(config, s, torch.device("cpu")) for s in (1, 1, 2))
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))
    assert not torch.equal(a.head.weight, c.head.weight)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"height": 24}, "frame height must be a multiple of 8 from 32 to 1024.*got 24"),
        ({"width": 36}, "frame width must be a multiple of 8.*got 36; resize or pad"),
        ({"frame_channels": 4}, "3 × cameras × stacked frames, got 4"),
        ({"frame_channels": 0}, "got 0"),
        ({"stage_channels": ()}, "stage_channels"),
        ({"stage_channels": (16, 0)}, "stage_channels"),
        ({"stage_channels": 16}, "stage_channels must be a list of whole numbers, got 16"),
        ({"stage_channels": "16"}, "stage_channels must be a list of whole numbers, got '16'"),
        ({"stage_channels": (16, 0.5)}, "stage_channels"),
        ({"stage_blocks": -1}, "stage_blocks"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_impossible_shapes_are_rejected(change, sentence):
    with pytest.raises(InputError, match=sentence):
        NetworkConfig(**change)


def test_a_list_of_stages_is_the_same_network():
    listed = NetworkConfig(stage_channels=[16, 32])  # type: ignore[arg-type]
    assert listed == NetworkConfig(stage_channels=(16, 32))
    assert hash(listed) == hash(NetworkConfig(stage_channels=(16, 32)))


@pytest.mark.parametrize(
    "wrong",
    [
        torch.zeros(2, 3, 64, 64, dtype=torch.uint8),
        torch.zeros(2, 6, 32, 32, dtype=torch.uint8),
        torch.zeros(3, 32, 32, dtype=torch.uint8),
        torch.zeros(2, 3, 32, 32, dtype=torch.int64),
    ],
)
def test_frames_of_wrong_shape_or_type_are_rejected(wrong):
    network = ResidualCNN(NetworkConfig(height=32, width=32))
    with pytest.raises(InputError, match="frames must"):
        network(wrong)
