"""A policy averaged over the latest part of its learning."""

import pytest
import torch

from pureward.agents.d4pg.agent import D4PG, D4PGConfig
from pureward.errors import InputError


def agent(**settings) -> D4PG:
    config = D4PGConfig(actor_layers=(4, 4), critic_layers=(4, 4), atoms=5, **settings)
    return D4PG(config, state_size=3, action_size=2)


def test_its_weights_are_those_computed_by_hand():
    made = agent(averaging=0.5)
    assert made.average is not None
    weight = made.average.actor.state_dict()
    name = next(iter(weight))
    for value, wanted in ((3.0, 3.0), (0.0, 1.0), (0.0, 0.5)):
        # Shares 1, 1/(1 + ½) and 1/(1 + 1) of the newest.
        made.actor.state_dict()[name].fill_(value)
        made.average_policy()
        torch.testing.assert_close(weight[name], torch.full_like(weight[name], wanted))


def test_it_is_what_is_evaluated_and_not_what_explores():
    made, state = agent(averaging=0.5), torch.randn(6, 3)
    made.average_policy()
    assert torch.equal(made.act_well(state), made.act(state))
    before = made.act_well(state)
    with torch.no_grad():
        for weight in made.actor.parameters():
            weight.mul_(-1.0)
    assert torch.equal(made.act_well(state), before)
    assert not torch.equal(made.act(state), before)


def test_without_one_the_newest_is_evaluated():
    made, state = agent(), torch.randn(6, 3)
    made.average_policy()
    assert made.policy is made.actor
    assert torch.equal(made.act_well(state), made.act(state))


def test_it_is_saved_with_the_agent():
    made, other, state = agent(averaging=0.2), agent(averaging=0.2), torch.randn(6, 3)
    for _ in range(3):
        with torch.no_grad():
            next(made.actor.parameters()).add_(0.3)
        made.average_policy()
    other.load_state_dict(made.state_dict())
    assert torch.equal(other.act_well(state), made.act_well(state))
    for one in (made, other):
        one.average_policy()
    assert torch.equal(other.act_well(state), made.act_well(state))


def test_a_window_longer_than_all_there_was_is_refused():
    with pytest.raises(InputError, match="averaging is a share of the training so far, got 2.0"):
        agent(averaging=2.0)
