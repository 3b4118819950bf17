"""Distributions on atoms: the projection by hand, by properties, and against its definition."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pureward.agents.d4pg.categorical import (
    Support,
    cross_entropy,
    cross_entropy_gradient,
    expected_value,
    expected_value_gradient,
    project,
)

FIVE = Support(0.0, 4.0, 5)


def by_definition(p: Tensor, reward: Tensor, discount: Tensor, support: Support) -> Tensor:
    """Triangular kernels around every atom, weighed by every moved one."""
    moved = (reward[:, None] + discount[:, None] * support.atoms).clamp(support.low, support.high)
    near = (1 - (moved[:, None, :] - support.atoms[:, None]).abs() / support.gap).clamp(min=0)
    return (near * p[:, None, :]).sum(dim=-1)


@pytest.mark.parametrize(
    ("reward", "discount", "expected"),
    [
        (0.0, 1.0, [0.1, 0.2, 0.4, 0.2, 0.1]),  # nothing moves
        (1.0, 1.0, [0.0, 0.1, 0.2, 0.4, 0.3]),  # onto the next atoms, clipped at the top
        (-1.0, 1.0, [0.3, 0.4, 0.2, 0.1, 0.0]),  # clipped at the bottom
        (0.5, 1.0, [0.05, 0.15, 0.3, 0.3, 0.2]),  # halfway between atoms
        (3.0, 0.0, [0.0, 0.0, 0.0, 1.0, 0.0]),  # terminal, on an atom
        (2.25, 0.0, [0.0, 0.0, 0.75, 0.25, 0.0]),  # terminal, between atoms
        (9.0, 0.5, [0.0, 0.0, 0.0, 0.0, 1.0]),  # beyond the top
        (-9.0, 0.5, [1.0, 0.0, 0.0, 0.0, 0.0]),  # beyond the bottom
        (1.0, 0.5, [0.0, 0.2, 0.6, 0.2, 0.0]),  # 0..4 → 1, 1.5, 2, 2.5, 3
    ],
)
def test_projection_by_hand(reward, discount, expected):
    p = torch.tensor([[0.1, 0.2, 0.4, 0.2, 0.1], [1.0, 0.0, 0.0, 0.0, 0.0]])
    # The second row is another case, which must not leak into the first.
    found = project(p, torch.tensor([reward, 2.0]), torch.tensor([discount, 1.0]), FIVE)
    torch.testing.assert_close(found[0], torch.tensor(expected), atol=1e-6, rtol=0)
    torch.testing.assert_close(found[1], torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0]))


numbers = st.floats(-50.0, 150.0, width=32)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    st.lists(st.tuples(numbers, st.floats(0.0, 1.0, width=32)), min_size=2, max_size=8),
    st.integers(2, 51),
    st.integers(0, 1000),
)
def test_projection_keeps_mass_and_means(moves, atoms, seed):
    z = Support(-10.0, 100.0, atoms)
    reward, discount = torch.tensor(moves).T
    rng = torch.Generator().manual_seed(seed)
    p = (3 * torch.randn(len(moves), atoms, generator=rng)).softmax(dim=-1)
    found = project(p, reward, discount, z)
    assert (found >= -1e-6).all()
    torch.testing.assert_close(found.sum(dim=-1), torch.ones(len(moves)), atol=1e-5, rtol=0)
    clipped = (reward[:, None] + discount[:, None] * z.atoms).clamp(z.low, z.high)
    mean = (p * clipped).sum(dim=-1)
    torch.testing.assert_close(expected_value(found, z), mean, atol=1e-3, rtol=0)
    exact = by_definition(p.double(), reward.double(), discount.double(), z)
    torch.testing.assert_close(found, exact.float(), atol=1e-4, rtol=0)


def test_a_nan_reward_affects_only_its_row():
    p = torch.full((2, 5), 0.2)
    found = project(p, torch.tensor([float("nan"), 0.0]), torch.ones(2), FIVE)
    assert found[0].isnan().any()
    torch.testing.assert_close(found[1], p[1])


def test_cross_entropy_and_expected_value_by_hand():
    p = torch.tensor([[0.5, 0.5, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]])
    log_q = torch.tensor([[0.25, 0.25, 0.25, 0.125, 0.125], [0.125, 0.125, 0.25, 0.25, 0.25]]).log()
    # Both rows put 1/4 wherever p lies.
    torch.testing.assert_close(cross_entropy(p, log_q), torch.tensor(4.0).log())
    torch.testing.assert_close(expected_value(p, FIVE), torch.tensor([0.5, 4.0]))


def test_gradients_are_those_of_autograd():
    rng = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 5, generator=rng, requires_grad=True)
    target = torch.randn(6, 5, generator=rng).softmax(dim=-1)
    cross_entropy(target, logits.log_softmax(dim=-1)).backward()
    probabilities = logits.detach().softmax(dim=-1)
    torch.testing.assert_close(cross_entropy_gradient(target, probabilities), logits.grad)
    logits.grad = None
    expected_value(logits.softmax(dim=-1), FIVE).mean().backward()
    value = expected_value(probabilities, FIVE)
    torch.testing.assert_close(expected_value_gradient(probabilities, value, FIVE), logits.grad)
