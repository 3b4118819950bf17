"""Networks of Table 4, and their written-out gradients against autograd's."""

import math
from dataclasses import replace

import pytest
import torch

from pureward.agents.d4pg.config import D4PGConfig
from pureward.agents.d4pg.network import Actor, Critic, flattened

SMALL = D4PGConfig(actor_layers=(7, 6), critic_layers=(8, 5), atoms=3)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_layers_are_those_of_table_4():
    table_4 = D4PGConfig(), 24, 6, generator()
    actor, critic = Actor(*table_4), Critic(*table_4)
    assert [tuple(w.shape) for w in actor.body.weights] == [(24, 300), (300, 200), (200, 6)]
    assert [tuple(w.shape) for w in critic.body.weights] == [(30, 400), (400, 300), (300, 51)]


def test_actions_stay_in_their_range():
    actor = Actor(D4PGConfig(), 3, 2, generator())
    assert actor(1e4 * torch.randn(50, 3)).abs().max() <= 1


def test_saturated_actions_are_pulled_back():
    """By (|a| − 0.98) / 0.02 over the batch, at the input of the tanh; by hand for two actions."""
    actor = Actor(SMALL, 4, 2, generator())
    flattened(actor)
    with torch.no_grad():
        actor.body.weights[-1].zero_()
        actor.body.biases[-1].copy_(torch.tensor([20.0, math.atanh(-0.99)]))
        action, trace = actor.forward_trace(torch.randn(5, 4, generator=generator()))
        actor.backward(trace, torch.zeros_like(action))
    expected = torch.tensor([1.0, -0.5])  # summed over the batch
    torch.testing.assert_close(actor.body.biases[-1].grad, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("norm_first", [False, True])
def test_gradients_are_those_of_autograd(norm_first):
    rng = generator(1)
    config = replace(SMALL, norm_first=norm_first)
    actor, critic = Actor(config, 4, 2, rng), Critic(config, 4, 2, rng)
    for parameter in [*actor.parameters(), *critic.parameters()]:
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=rng)
    state, taken = torch.randn(9, 4, generator=rng), torch.randn(9, 2, generator=rng)
    gradient = torch.randn(18, 3, generator=rng)

    expected = autograd_gradients(actor, critic, state, taken, gradient)
    flattened(actor)
    flattened(critic)
    with torch.no_grad():
        proposed, actor_trace = actor.forward_trace(state)
        logits, critic_trace = critic.forward_trace(state, taken, proposed)
        actor.backward(actor_trace, critic.backward(critic_trace, gradient))
        torch.testing.assert_close(logits[9:], critic(state, actor(state)))
    found = [p.grad for p in [*actor.parameters(), *critic.parameters()]]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def autograd_gradients(actor, critic, state, taken, gradient):
    """The critic's from actions taken, the actor's through actions proposed, apart."""
    into_critic = torch.autograd.grad(
        (critic(state, taken) * gradient[:9]).sum(), list(critic.parameters())
    )
    into_actor = torch.autograd.grad(
        (critic(state, actor(state)) * gradient[9:]).sum(), list(actor.parameters())
    )
    return [*into_actor, *into_critic]


def test_flattening_changes_no_output_and_leaves_views():
    actor = Actor(SMALL, 4, 2, generator())
    state = torch.randn(5, 4)
    before = actor(state).detach()
    flat = flattened(actor).values
    assert torch.equal(actor(state).detach(), before)
    flat.zero_()
    assert (actor(state) == 0).all()


def test_a_first_layer_with_norm_ignores_scale():
    rng = generator()
    actor = Actor(D4PGConfig(norm_first=True), 4, 2, rng)
    actor.body.biases[0].data.zero_()
    state = torch.randn(8, 4, generator=rng)
    torch.testing.assert_close(actor(state), actor(100 * state), atol=1e-3, rtol=0)
