"""D4PG: known fixed points, gradients, saving, and bitwise reproducible updates."""

import math
from dataclasses import replace

import pytest
import torch

from pureward.agents.d4pg.agent import D4PG, Batch, D4PGConfig
from pureward.agents.d4pg.normaliser import Normaliser
from pureward.agents.exploration import Exploration, ExplorationConfig
from pureward.errors import InputError

SMALL = D4PGConfig(actor_layers=(32, 16), critic_layers=(32, 32), actor_rate=3e-3, critic_rate=3e-3)


def agent(config: D4PGConfig = SMALL, state_size: int = 3, action_size: int = 2, seed: int = 0):
    return D4PG(config, state_size=state_size, action_size=action_size, seed=seed)


def batches(count: int, seed: int = 0, size: int = 16, state_size: int = 3, action_size: int = 2):
    rng = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield Batch(
            state=torch.randn(size, state_size, generator=rng),
            action=2 * torch.rand(size, action_size, generator=rng) - 1,
            reward=torch.rand(size, generator=rng),
            discount=torch.full((size,), 0.95),
            next_state=torch.randn(size, state_size, generator=rng),
        )


def test_two_states_converge_to_known_distributions():
    """From A a fair coin pays 0 or 2 and leads to B; B pays 1 and ends.

    With γ = 0.5 the return of B is 1, and that of A is 0.5 or 2.5, one half each. All three
    lie on atoms.
    """
    config = replace(SMALL, atoms=7, value_low=0.0, value_high=3.0, target_period=10)
    learner = agent(config, state_size=2, action_size=1)
    a, b = torch.eye(2)
    rng = torch.Generator().manual_seed(0)
    coin = torch.tensor([0.0, 2.0]).repeat(32)
    batch = Batch(
        state=torch.cat([a.expand(64, 2), b.expand(64, 2)]),
        action=torch.zeros(128, 1),
        reward=torch.cat([coin, torch.ones(64)]),
        discount=torch.cat([torch.full((64,), 0.5), torch.zeros(64)]),
        next_state=b.expand(128, 2).contiguous(),
    )
    for _ in range(600):
        # The critic is asked for every action the policy may come to prefer.
        batch = replace(batch, action=2 * torch.rand(128, 1, generator=rng) - 1)
        metrics = learner.update(batch)
    for action in (-0.5, 0.0, 0.8):
        logits = learner.critic(torch.eye(2), torch.full((2, 1), action))
        expected = torch.tensor([[0, 0.5, 0, 0, 0, 0.5, 0], [0, 0, 1.0, 0, 0, 0, 0]])
        torch.testing.assert_close(logits.softmax(dim=-1).detach(), expected, atol=0.03, rtol=0)
        means = logits.softmax(dim=-1).detach() @ learner.support.atoms
        torch.testing.assert_close(means, torch.tensor([1.5, 1.0]), atol=0.03, rtol=0)
    # The best a critic can do is the entropy of the coin, on half of the batch.
    assert metrics["critic/loss"].item() == pytest.approx(math.log(2) / 2, abs=0.03)


def test_a_loop_converges_to_the_geometric_series():
    """A state that pays 1 and leads to itself is worth 1 / (1 − γ)."""
    config = replace(SMALL, value_high=10.0, polyak=0.1)
    learner = agent(config, state_size=1, action_size=1)
    rng = torch.Generator().manual_seed(0)
    for _ in range(500):
        learner.update(
            Batch(
                state=torch.ones(64, 1),
                action=2 * torch.rand(64, 1, generator=rng) - 1,
                reward=torch.ones(64),
                discount=torch.full((64,), 0.8),
                next_state=torch.ones(64, 1),
            )
        )
    logits = learner.critic(torch.ones(1, 1), torch.zeros(1, 1))
    assert (logits.softmax(dim=-1) @ learner.support.atoms).item() == pytest.approx(5.0, abs=0.2)


def learned_arms(learner: D4PG) -> torch.Tensor:
    """Actions (2, 1) after a bandit whose best actions are 0.6 and −0.6, by the state's sign."""
    rng = torch.Generator().manual_seed(0)
    for _ in range(800):
        state = 2 * torch.rand(128, 2, generator=rng) - 1
        action = 2 * torch.rand(128, 1, generator=rng) - 1
        best = 0.6 * state[:, :1].sign()
        learner.update(
            Batch(
                state=state,
                action=action,
                reward=(1 - (action - best).square() / 4)[:, 0],
                discount=torch.zeros(128),
                next_state=state,
            )
        )
    return learner.act(torch.tensor([[0.5, 0.0], [-0.5, 0.0]]))


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_actor_finds_the_best_arm_of_a_bandit(norm_first):
    config = replace(SMALL, value_high=1.0, norm_first=norm_first, actor_rate=3e-4)
    found = learned_arms(agent(config, state_size=2, action_size=1))
    torch.testing.assert_close(found, torch.tensor([[0.6], [-0.6]]), atol=0.15, rtol=0)


@pytest.mark.parametrize("start", [12.0, -12.0])
def test_a_saturated_actor_recovers(start):
    """tanh(12) is 1 in float32 and passes no gradient on: without the pull it stays there."""
    config = replace(SMALL, value_high=1.0, norm_first=True, actor_rate=1e-3)
    learner = agent(config, state_size=2, action_size=1)
    learner.actor.body.biases[-1].data += start
    found = learned_arms(learner)[:, 0].tolist()
    assert 0.3 < found[0] < 0.9
    assert -0.9 < found[1] < -0.3


def test_gradients_equal_those_of_autograd():
    """Cross entropy to the projected target, and −Q of the actions proposed, at the same weights.

    The projection is written another way than the library's: atom j takes of each moved atom the
    share 1 − distance/gap, where that is positive.
    """
    learner = agent(replace(SMALL, atoms=5, value_high=4.0, normalise=True, target_period=100))
    for batch in batches(4):  # targets lag behind, and states have a mean and a spread
        learner.observe(3.0 + 2.0 * batch.state)
        learner.update(batch)
    batch = next(batches(1, seed=5))
    atoms = torch.arange(5.0)  # V from 0 to 4, a gap of 1
    state, after = learner.normaliser(batch.state), learner.normaliser(batch.next_state)
    value = learner.target_critic(after, learner.target_actor(after)).softmax(dim=1).detach()
    moved = (batch.reward[:, None] + batch.discount[:, None] * atoms).clamp(0.0, 4.0)
    shares = (1.0 - (moved[:, :, None] - atoms).abs()).clamp(min=0.0)
    target = (value[:, :, None] * shares).sum(dim=1)
    loss = -(target * learner.critic(state, batch.action).log_softmax(dim=1)).sum() / 16
    of_policy = learner.critic(state, learner.actor(state)).softmax(dim=1) @ atoms
    critic, actor = list(learner.critic.parameters()), list(learner.actor.parameters())
    expected = [
        *torch.autograd.grad(loss, critic),
        *torch.autograd.grad(-of_policy.mean(), actor),
    ]
    metrics = learner.find_gradients(batch)
    for parameter, gradient in zip([*critic, *actor], expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-6, rtol=1e-4)
    by_hand = {
        "loss": loss,
        "value": of_policy.mean(),
        "target_at_top": target[:, -1].mean(),
    }
    for name, number in by_hand.items():
        assert metrics[f"critic/{name}"].item() == pytest.approx(number.item(), rel=1e-5)


def test_updates_are_bitwise_reproducible():
    one, two = agent(), agent()
    for batch in batches(20):
        first, second = one.update(batch), two.update(batch)
        assert all(torch.equal(first[name], second[name]) for name in first)
    saved, other = one.state_dict(), two.state_dict()
    assert all(torch.equal(saved[name], other[name]) for name in saved)
    assert not torch.equal(agent(seed=1).act(torch.ones(1, 3)), agent().act(torch.ones(1, 3)))


@pytest.mark.parametrize(
    "config",
    [
        replace(SMALL, target_period=7),
        replace(SMALL, polyak=0.01, norm_first=True),
        replace(SMALL, normalise=True, critic_rate=1e-3),
    ],
)
def test_a_loaded_agent_continues_identically(config):
    learner, fresh = agent(config), agent(config, seed=9)
    for batch in batches(10):
        learner.observe(batch.state)
        learner.update(batch)
    fresh.load_state_dict(learner.state_dict())
    for batch in batches(10, seed=1):
        for one in (learner, fresh):
            one.observe(batch.state)
        mine, theirs = learner.update(batch), fresh.update(batch)
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    mine, theirs = learner.state_dict(), fresh.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_saved_tensors_are_copies():
    learner = agent(replace(SMALL, normalise=True))
    saved = learner.state_dict()
    assert {name.split(".")[0] for name in saved} == {
        *("actor", "critic", "target_actor", "target_critic"),
        *("normaliser", "optimizer", "updates"),
    }
    before = {name: tensor.clone() for name, tensor in saved.items()}
    for batch in batches(3):
        learner.observe(batch.state)
        learner.update(batch)
    assert all(torch.equal(saved[name], before[name]) for name in saved)


def test_a_saved_agent_of_another_shape_is_rejected():
    with pytest.raises(InputError, match=r"saved agent's 'actor.body.weights.0' must have shape"):
        agent().load_state_dict(agent(state_size=4).state_dict())
    with pytest.raises(InputError, match="'actor.body.weights.0' must have .* got None"):
        agent().load_state_dict({})


def test_targets_are_copied_every_target_period():
    learner = agent(replace(SMALL, target_period=3))
    first = learner.target_actor.body.weights[0].clone()
    for i, batch in enumerate(batches(6), start=1):
        learner.update(batch)
        target, online = (n.body.weights[0] for n in (learner.target_actor, learner.actor))
        if i < 3:
            assert torch.equal(target, first)
        assert torch.equal(target, online) == (i % 3 == 0)
    assert learner.updates == 6


def test_targets_move_by_polyak():
    learner = agent(replace(SMALL, polyak=0.25))
    before = learner.target_critic.body.weights[1].clone()
    learner.update(next(batches(1)))
    online = learner.critic.body.weights[1]
    expected = 0.75 * before + 0.25 * online
    torch.testing.assert_close(learner.target_critic.body.weights[1], expected)


def test_rewards_beyond_the_support_show_in_the_metrics():
    batch = next(batches(1))
    assert agent().update(batch)["critic/target_at_top"] < 0.5
    high = replace(batch, reward=torch.full((16,), 1000.0))
    assert agent().update(high)["critic/target_at_top"] == pytest.approx(1.0)


@pytest.mark.parametrize("field", ["state", "action", "reward", "next_state"])
def test_nan_propagates(field):
    learner = agent()
    batch = next(batches(1))
    getattr(batch, field)[3] = float("nan")
    assert all(learner.finite().values())
    assert not learner.update(batch)["critic/loss"].isfinite()
    assert not all(learner.finite().values())


def test_noise_is_added_and_actions_stay_in_range():
    learner = agent()
    state = torch.randn(5, 3)
    greedy = learner.act(state)
    noise = torch.full((5, 2), 0.1)
    torch.testing.assert_close(learner.act(state, noise), (greedy + 0.1).clamp(max=1))
    assert (learner.act(state, 50 * noise) == 1).all()
    assert (learner.act(state, -50 * noise) == -1).all()


def test_states_are_normalised_if_configured():
    """Seen are 30 and 10, −20 and 0, 5 and 1: means 20, −10, 3 and spreads 10, 10, 2."""
    state = torch.tensor([[30.0, -20.0, 5.0], [10.0, 0.0, 1.0]])
    normal = torch.tensor([[1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]])
    for asked, seen in ((False, state), (True, normal)):
        learner = agent(replace(SMALL, normalise=asked))
        learner.observe(state)
        torch.testing.assert_close(learner.act(state), learner.actor(seen).detach())


def test_each_world_has_its_own_exploration_scale():
    rng = torch.Generator().manual_seed(0)
    config = ExplorationConfig(low=0.05, high=0.4)
    exploration = Exploration(config, worlds=30, action_size=4, generator=rng)
    assert exploration.scale.min() >= 0.05
    assert exploration.scale.max() <= 0.4
    draws = torch.stack([exploration.sample(rng) for _ in range(2000)])
    spread = draws.transpose(0, 1).flatten(1).std(dim=1)
    torch.testing.assert_close(spread, exploration.scale[:, 0], rtol=0.05, atol=0)
    same = Exploration(ExplorationConfig(), worlds=3, action_size=1, generator=rng)
    torch.testing.assert_close(same.scale, torch.full((3, 1), 0.3))


def test_the_normaliser_has_mean_and_deviation_of_all_states():
    rng = torch.Generator().manual_seed(0)
    seen = 1000 + torch.tensor([0.5, 20.0]) * torch.randn(700, 2, generator=rng)
    normaliser = Normaliser(2)
    for part in seen.split([1, 99, 600]):
        normaliser.observe(part)
    torch.testing.assert_close(normaliser.mean, seen.double().mean(dim=0))
    spread = seen.double().std(dim=0, correction=0)
    torch.testing.assert_close((normaliser.squares / normaliser.count).sqrt(), spread)
    normal = normaliser(seen)
    torch.testing.assert_close(normal.mean(dim=0), torch.zeros(2), atol=1e-3, rtol=0)
    torch.testing.assert_close(normal.std(dim=0, correction=0), torch.ones(2), atol=1e-3, rtol=0)


def test_a_new_normaliser_only_clamps():
    states = torch.tensor([[0.5, -25.0], [-3.0, 12.0]])
    assert Normaliser(2)(states).tolist() == [[0.5, -10.0], [-3.0, 10.0]]


def test_an_outlier_does_not_inflate_the_deviation():
    rng = torch.Generator().manual_seed(0)
    normaliser = Normaliser(1)
    normaliser.observe(torch.randn(20_000, 1, generator=rng))
    for _ in range(100):
        states = torch.randn(1000, 1, generator=rng)
        states[0] = 1e4
        normaliser.observe(states)
    # 100 of 120,000 at ten spreads: a variance of 1 + 100/1200, and the mean moved by 0.008.
    assert (normaliser.squares / normaliser.count).item() == pytest.approx(1.09, abs=0.02)
    assert normaliser.mean.item() == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"actor_rate": 0.0}, r"actor_rate must lie inside \(0, 1\), got 0.0"),
        ({"actor_layers": (8, 0)}, r"actor_layers must each have 1 to 16,384 units, got \(8, 0\)"),
        ({"critic_layers": (-3,)}, "critic_layers must each have 1 to 16,384 units"),
        ({"critic_layers": (10**12,)}, "critic_layers must each have 1 to 16,384 units"),
        ({"atoms": 1}, r"atoms must lie in \[2, 16,384\], got 1"),
        ({"atoms": 10**11}, r"atoms must lie in \[2, 16,384\]"),
        ({"value_high": 1e300}, "value_low < value_high within"),
        ({"value_high": -1.0}, "got 0.0 and -1.0"),
        ({"value_high": math.inf}, "value_high must be a finite number, got inf"),
        ({"value_low": -math.inf}, "value_low must be a finite number, got -inf"),
        ({"target_period": 0}, "target_period ≥ 1"),
        ({"polyak": 1.5}, r"polyak in \[0, 1\]"),
    ],
)
def test_bad_settings_are_rejected(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        D4PGConfig(**settings)


def test_bad_exploration_is_rejected():
    with pytest.raises(InputError, match="0 ≤ low ≤ high, got low=0.4 and high=0.1"):
        ExplorationConfig(low=0.4, high=0.1)
    with pytest.raises(InputError, match="high must be a finite number, got inf"):
        ExplorationConfig(low=0.1, high=math.inf)


def test_fused_arithmetic_is_rejected_on_a_cpu():
    assert agent().arithmetic == "plain"
    with pytest.raises(InputError, match="fused updates need a CUDA device, .* got cpu"):
        D4PG(SMALL, state_size=3, action_size=2, arithmetic="fused")
    with pytest.raises(InputError, match="unknown arithmetic 'half'"):
        D4PG(SMALL, state_size=3, action_size=2, arithmetic="half")  # type: ignore[arg-type]
