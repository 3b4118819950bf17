# SPDX-License-Identifier: Apache-2.0
"""D_θ: updates by both branches, metrics, learning, rejected input."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pureward.errors import InputError
from pureward.rewards.arithmetic import in_batches, logits, resolved
from pureward.rewards.config import RewardConfig
from pureward.rewards.discriminator import METRICS, Discriminator
from pureward.rewards.network import NetworkConfig
from pureward.rewards.risks.pu import nnpnu, nnpu, pn, upu
from pureward.rewards.view import View


def config_of(network, **changes) -> RewardConfig:
    return RewardConfig(network=network, **({"learning_rate": 1e-3} | changes))


def weights_of(made: Discriminator) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in made.network.parameters()])


def test_paper_defaults():
    config = RewardConfig()
    assert (config.learning_rate, config.slack) == (1e-5, 0.0)
    assert config.loss == "logistic"
    assert config.network.view == View()


@pytest.mark.parametrize("risk", [pn, upu, nnpu])
def test_one_update_is_adam_on_the_objective(risk, small_network, scenes):
    """Against a plain loop: separate passes, autograd, a fresh Adam."""
    config = config_of(NetworkConfig(**{**vars(small_network), "dropout": 0.0}))
    made, plain = (Discriminator(config, risk=risk, seed=3) for _ in range(2))
    p, u = scenes(6, 0)[0], scenes(4, 1)[0]
    optimizer = torch.optim.Adam(plain.network.parameters(), lr=1e-3)
    for _ in range(3):
        metrics = made.update(p, u)
        result = risk(plain.network(p), plain.network(u), prior=0.5)
        optimizer.zero_grad()
        result.objective.backward()
        optimizer.step()
        assert float(metrics["risk/value"]) == pytest.approx(float(result.value), abs=1e-5)
    torch.testing.assert_close(weights_of(made), weights_of(plain), atol=2e-5, rtol=0)


def test_violated_update_ascends(small_network, scenes):
    """A discriminator that separates P and U lowers the positives and raises the unlabeled."""
    config = config_of(NetworkConfig(**{**vars(small_network), "dropout": 0.0}))
    made = Discriminator(config, seed=0)
    p, u = scenes(16, 0, (0, 8))[0], scenes(16, 1, (16, 24))[0]
    for _ in range(60):
        metrics = made.update(p, u)
        if metrics["risk/violated"]:
            break
    assert metrics["risk/violated"] == 1
    before = made.logits(p).mean() - made.logits(u).mean()
    made.optimizer.first.zero_()  # without momentum the next step shows this branch alone
    assert made.update(p, u)["risk/violated"] == 1
    assert made.logits(p).mean() - made.logits(u).mean() < before


def test_metrics_are_named_detached_and_correct(small_network, scenes):
    made = Discriminator(config_of(NetworkConfig(**{**vars(small_network), "dropout": 0.0})))
    p, u = scenes(5, 0)[0], scenes(7, 1)[0]
    on_p, on_u = made.logits(p), made.logits(u)
    metrics = made.update(p, u)
    assert tuple(metrics) == METRICS
    assert all(m.dim() == 0 and not m.requires_grad for m in metrics.values())
    expected = nnpu(on_p, on_u, prior=0.5)
    assert float(metrics["risk/negative"]) == pytest.approx(float(expected.negative), abs=1e-5)
    assert float(metrics["mean/positive"]) == pytest.approx(float(on_p.sigmoid().mean()), abs=1e-5)
    assert float(metrics["mean/unlabeled"]) == pytest.approx(float(on_u.sigmoid().mean()), abs=1e-5)


def test_learns_successes_among_unlabeled(small_network, scenes):
    """Half of U are successes: nnPU gives them the positives' side, PN pushes them down."""
    high, low = (0, 6), (14, 24)
    mean_on_hidden = {}
    network = replace(small_network, stage_blocks=0)
    for risk in (nnpu, pn):
        made = Discriminator(config_of(network, learning_rate=3e-3), risk=risk, seed=1)
        for seed in range(30):
            p = scenes(32, 100 + seed, high)[0]
            u = torch.cat([scenes(16, 300 + seed, high)[0], scenes(16, 500 + seed, low)[0]])
            made.update(p, u)
        mean_on_hidden[risk.__name__] = float(made.logits(scenes(64, 9, high)[0]).sigmoid().mean())
        assert float(made.logits(scenes(64, 8, low)[0]).sigmoid().mean()) < 0.35
    assert mean_on_hidden["nnpu"] > 0.75
    assert mean_on_hidden["nnpu"] > mean_on_hidden["pn"] + 0.05


def test_an_update_with_failures_is_adam_on_nnpnu(small_network, scenes):
    config = config_of(NetworkConfig(**{**vars(small_network), "dropout": 0.0}))
    made, plain = (Discriminator(config, risk=nnpnu, seed=3) for _ in range(2))
    p, u, n = scenes(6, 0)[0], scenes(4, 1)[0], scenes(5, 2)[0]
    metrics = made.update(p, u, n)
    given = {"failure_logits": plain.network(n)}
    result = nnpnu(plain.network(p), plain.network(u), prior=0.5, **given)
    optimizer = torch.optim.Adam(plain.network.parameters(), lr=1e-3)
    result.objective.backward()
    optimizer.step()
    assert float(metrics["risk/value"]) == pytest.approx(float(result.value), abs=1e-5)
    torch.testing.assert_close(weights_of(made), weights_of(plain), atol=2e-5, rtol=0)


def test_known_failures_help_to_find_unlabeled_successes(small_network, scenes):
    """Half of U are successes: D is high on new ones and low on new failures."""
    high, low = (0, 6), (14, 24)
    made = Discriminator(config_of(small_network, learning_rate=1e-2), risk=nnpnu, seed=1)
    for seed in range(16):
        u = torch.cat([scenes(8, 300 + seed, high)[0], scenes(8, 500 + seed, low)[0]])
        made.update(scenes(16, 100 + seed, high)[0], u, scenes(8, 700 + seed, low)[0])
    assert float(made.logits(scenes(32, 9, high)[0]).sigmoid().mean()) > 0.7
    assert float(made.logits(scenes(32, 8, low)[0]).sigmoid().mean()) < 0.4


def test_failures_need_a_risk_that_takes_them_and_equal_shapes(small_network, scenes):
    frames = scenes(4, 0)[0]
    for risk, failures in ((nnpu, [frames]), (nnpnu, [])):
        with pytest.raises(InputError, match="known failures go with a risk that takes them"):
            Discriminator(config_of(small_network), risk=risk).update(frames, frames, *failures)
    made = Discriminator(config_of(small_network), risk=nnpnu)
    with pytest.raises(InputError, match=r"positives \(3, 32, 32\) and \(6, 32, 32\)"):
        made.update(frames, frames, torch.cat([frames, frames], dim=1))


def test_an_update_without_frames_is_refused(small_network, scenes):
    made, none = Discriminator(config_of(replace(small_network, view=View()))), scenes(0, 0)[0]
    for positive, unlabeled in ((none, none), (none, scenes(4, 0)[0])):
        with pytest.raises(InputError, match="positive_logits must hold at least one sample"):
            made.update(positive, unlabeled)


def test_same_seed_same_updates(small_network, scenes):
    config = config_of(replace(small_network, view=View()))
    a, b, c = (Discriminator(config, seed=s) for s in (5, 5, 6))
    p, u = scenes(4, 0)[0], scenes(4, 1)[0]
    for _ in range(2):
        for made in (a, b, c):
            made.update(p, u)
    assert torch.equal(weights_of(a), weights_of(b))
    assert not torch.equal(weights_of(a), weights_of(c))


def test_prior_can_change_between_updates(small_network, scenes):
    made = Discriminator(config_of(small_network))
    p, u = scenes(4, 0)[0], scenes(4, 1)[0]
    before = made.update(p, u)["risk/positive"]
    made.set_prior(0.05)
    assert made.update(p, u)["risk/positive"] < 0.5 * before
    with pytest.raises(InputError, match="prior must lie inside"):
        made.set_prior(1.0)


def test_a_prior_is_one_number(small_network):
    made = Discriminator(config_of(small_network))
    for one in (torch.tensor(0.25), torch.tensor([0.25]), np.float32(0.25)):
        made.set_prior(0.5)
        made.set_prior(one)
        assert made.prior == 0.25
        assert made.prior.shape == ()
    rounded_away = [1 - 1e-9, 1e-50]
    for wrong in (torch.tensor([0.4, 0.5]), torch.tensor([np.nan]), "0.5", None, *rounded_away):
        with pytest.raises(InputError, match=r"prior must lie inside \(0, 1\) in float32, got"):
            made.set_prior(wrong)
        with pytest.raises(InputError, match=r"prior must lie inside \(0, 1\) in float32, got"):
            Discriminator(config_of(small_network), prior=wrong)
    assert made.prior == 0.25


def test_a_default_batch_has_fewer_large_frames():
    frames = torch.zeros(9, 3, 1024, 1024, dtype=torch.uint8)
    sizes = []

    def score(part):
        sizes.append(len(part))
        return torch.zeros(len(part))

    assert in_batches(score, frames, None, torch.device("cpu")).shape == (9,)
    assert sizes == [4, 4, 1]  # 4 · 1024² = 1024 · 64²
    sizes.clear()
    in_batches(score, torch.zeros(1025, 1, 64, 64, dtype=torch.uint8), None, torch.device("cpu"))
    assert sizes == [1024, 1]


def test_scoring_in_batches_equals_scoring_at_once(small_network, scenes):
    made = Discriminator(config_of(small_network))
    frames = scenes(7, 0)[0]
    torch.testing.assert_close(
        made.logits(frames, batch_size=3), made.logits(frames), atol=1e-6, rtol=0
    )
    assert made.logits(frames[:0]).shape == (0,)
    assert not made.logits(frames).requires_grad
    with pytest.raises(InputError, match="batch_size must be at least 1"):
        made.logits(frames, batch_size=0)


@pytest.mark.parametrize(
    ("positive", "unlabeled", "sentence"),
    [
        ((0, 3, 32, 32), (4, 3, 32, 32), "positive_logits must hold at least one sample"),
        ((4, 3, 32, 32), (0, 3, 32, 32), "unlabeled_logits must hold at least one sample"),
        ((4, 3, 40, 40), (4, 3, 40, 40), r"frames must have shape \(batch, 3, 32, 32\)"),
    ],
)
def test_bad_batches_are_rejected(small_network, positive, unlabeled, sentence):
    made = Discriminator(config_of(small_network))
    with pytest.raises(InputError, match=sentence):
        made.update(
            torch.zeros(positive, dtype=torch.uint8), torch.zeros(unlabeled, dtype=torch.uint8)
        )


NO_STORED_FRAMES = [
    (torch.rand(4, 3, 32, 32), "frames must be uint8 from 0 to 255, got float32; pass them as"),
    (255 * torch.rand(4, 3, 32, 32).half(), "frames must be uint8 from 0 to 255, got float16"),
    (torch.zeros(4, 3, 32, 32, dtype=torch.int64), "must be uint8 from 0 to 255, got int64"),
    (np.zeros((4, 3, 32, 32), dtype=np.uint8), "frames must be a tensor .* got ndarray; wrap"),
    (None, "frames must be a tensor .* got NoneType"),
    (torch.zeros((), dtype=torch.uint8), r"frames must have shape \(batch, .* got \(\)"),
    (torch.zeros(3, 32, 32, dtype=torch.uint8), r"frames must have shape .* got \(3, 32, 32\)"),
]


@pytest.mark.parametrize(("wrong", "sentence"), NO_STORED_FRAMES)
@pytest.mark.parametrize("risk", [nnpu, nnpnu])
def test_only_uint8_frames_are_accepted(risk, wrong, sentence, small_network, scenes):
    made, fine = Discriminator(config_of(small_network), risk=risk), scenes(4, 0)[0]
    before = weights_of(made)
    third = [fine] if risk is nnpnu else []
    for batches in ([wrong, fine], [fine, wrong], [wrong, wrong]):
        with pytest.raises(InputError, match=sentence):
            made.update(*batches, *third)
    with pytest.raises(InputError, match=sentence):
        made.logits(wrong)
    assert torch.equal(weights_of(made), before)


def test_known_failures_must_be_uint8_frames(small_network, scenes):
    made, fine = Discriminator(config_of(small_network), risk=nnpnu), scenes(4, 0)[0]
    with pytest.raises(InputError, match="failure_frames must be uint8 from 0 to 255, got float32"):
        made.update(fine, fine, fine.float())


def test_empty_batches_must_be_uint8_frames(small_network):
    with pytest.raises(InputError, match="frames must be uint8"):
        Discriminator(config_of(small_network)).logits(torch.zeros(0, 3, 32, 32))


def test_a_diverged_network_raises(small_network, scenes):
    made = Discriminator(config_of(small_network))
    with torch.no_grad():
        made.network.head.bias.fill_(float("nan"))
    with pytest.raises(InputError, match="must be finite"):
        made.update(scenes(2, 0)[0], scenes(2, 1)[0])


def test_bad_settings_are_rejected(small_network):
    with pytest.raises(InputError, match=r"learning_rate must lie inside \(0, 1\)"):
        RewardConfig(learning_rate=0.0)
    with pytest.raises(InputError, match="unknown risk 'nnlu'; choose from pn, upu, nnpu"):
        RewardConfig(risk="nnlu")
    with pytest.raises(InputError, match="unknown risk 3; choose from pn, upu, nnpu"):
        Discriminator(RewardConfig(network=small_network), risk=3)
    with pytest.raises(InputError, match="config must be a RewardConfig, got int"):
        Discriminator(3)
    with pytest.raises(InputError, match="captured updates need a CUDA device"):
        Discriminator(RewardConfig(network=small_network), captured=True)


@pytest.mark.parametrize("device", ["tpu", "cuda:99", None])
def test_missing_devices_are_rejected(device, small_network):
    with pytest.raises(InputError, match=f"device '{device}' cannot compute here"):
        Discriminator(config_of(small_network), device=device)


def test_arithmetic_is_checked_against_the_device(small_network):
    cpu = torch.device("cpu")
    assert resolved("auto", small_network, cpu) == "float32"
    with pytest.raises(InputError, match="fused arithmetic needs a CUDA device"):
        resolved("fused", small_network, cpu)
    with pytest.raises(InputError, match="unknown arithmetic 'int4'"):
        resolved("int4", small_network, cpu)  # type: ignore[arg-type]


def test_logits_equal_the_network(small_network, scenes):
    made = Discriminator(config_of(small_network))
    frames = scenes(3, 0)[0]
    made.network.eval()
    torch.testing.assert_close(logits(made.network, frames), made.network(frames))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("risk", [nnpu, nnpnu])
@pytest.mark.parametrize("arithmetic", ["bfloat16", "fused"])
def test_captured_updates_equal_eager_ones(arithmetic, risk, scenes):
    pytest.importorskip("triton", reason="needs Triton: pip install -e '.[kernels]'")
    network = NetworkConfig(height=32, width=32)
    config = RewardConfig(network=network, learning_rate=1e-4)
    eager, captured = (
        Discriminator(config, risk=risk, device="cuda", captured=c, arithmetic=arithmetic)
        for c in (False, True)
    )
    for seed in range(5):
        p, u, n = (scenes(8, start + seed)[0].cuda() for start in (0, 50, 90))
        batches = [p, u, n] if risk is nnpnu else [p, u]
        a, b = eager.update(*batches), captured.update(*batches)
        for name in METRICS:
            assert float(a[name]) == pytest.approx(float(b[name]), abs=1e-3), (name, seed)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_captured_update_refuses_another_batch_size(scenes):
    config = RewardConfig(network=NetworkConfig(height=32, width=32))
    made = Discriminator(config, device="cuda", captured=True)
    frames = scenes(8, 0)[0].cuda()
    made.update(frames, frames)
    with pytest.raises(InputError, match="a captured update takes the shapes of the first"):
        made.update(frames[:4], frames)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_fused_update_is_close_to_float32(scenes):
    pytest.importorskip("triton", reason="needs Triton: pip install -e '.[kernels]'")
    network = NetworkConfig(height=32, width=32, dropout=0.0)
    config = RewardConfig(network=replace(network, view=View.off()))
    exact, rounded, fused = (
        Discriminator(config, device="cuda", arithmetic=a) for a in ("float32", "bfloat16", "fused")
    )
    p, u = scenes(16, 0)[0].cuda(), scenes(12, 1)[0].cuda()
    a, _, b = (made.update(p, u) for made in (exact, rounded, fused))
    for name in METRICS:
        assert float(a[name]) == pytest.approx(float(b[name]), abs=0.02), name
    right, by_rounding, found = (
        torch.cat([w.grad.flatten() for w in made.network.parameters() if w.grad is not None])
        for made in (exact, rounded, fused)
    )
    turn, rounding = (1 - F.cosine_similarity(way, right, dim=0) for way in (found, by_rounding))
    assert turn < max(0.001, 3 * rounding), "as far off as bfloat16 is, no more"


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_dropout_in_updates_only(dropout, small_network, scenes):
    config = RewardConfig(network=replace(small_network, dropout=dropout))
    model = Discriminator(config)
    frames, _ = scenes(16, seed=0)
    before = model.logits(frames)
    assert torch.equal(model.logits(frames), before)
    learned_from = model.update(frames, frames)["mean/positive"]
    same = torch.isclose(learned_from, before.sigmoid().mean(), atol=1e-6)
    assert bool(same) == (dropout == 0.0)
