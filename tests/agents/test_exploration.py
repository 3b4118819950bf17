"""Exploration noise: its size, and how long it lasts."""

import pytest
import torch

from pureward.agents.exploration import Exploration, ExplorationConfig
from pureward.errors import InputError


def drawn(steps: int, **settings) -> torch.Tensor:
    rng = torch.Generator().manual_seed(0)
    noise = Exploration(ExplorationConfig(**settings), worlds=400, action_size=3, generator=rng)
    return torch.stack([noise.sample(rng) for _ in range(steps)])


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_noise_has_its_scale_and_correlation(correlation):
    noise = drawn(60, low=0.2, high=0.2, correlation=correlation)[30:]
    assert float(noise.std()) == pytest.approx(0.2, rel=0.03)
    between = float((noise[1:] * noise[:-1]).mean() / noise.square().mean())
    assert between == pytest.approx(correlation, abs=0.02)


def test_correlated_noise_has_unit_variance_from_the_first_step():
    first = drawn(1, low=0.2, high=0.2, correlation=0.9)
    assert float(first.std()) == pytest.approx(0.2, rel=0.05)


def test_all_draws_use_the_generator():
    settings = {"low": 0.1, "high": 0.5, "correlation": 0.8}
    first = drawn(2, **settings)
    torch.manual_seed(7)
    assert torch.equal(drawn(2, **settings), first)


def test_each_world_has_its_own_scale():
    sizes = drawn(400, low=0.1, high=0.5).std(dim=0).mean(dim=1)
    assert 0.08 < float(sizes.min()) < 0.15
    assert 0.45 < float(sizes.max()) < 0.53


def test_a_correlation_of_one_is_rejected():
    with pytest.raises(InputError, match="correlation in"):
        ExplorationConfig(correlation=1.0)
