"""The fused update compared with the plain one, on CUDA or in Triton's interpreter."""

import os
from dataclasses import replace

import pytest
import torch

ON_CUDA = torch.cuda.is_available()
if not ON_CUDA:
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are first imported
pytest.importorskip("triton", reason="needs Triton: pip install -e '.[kernels]'")

from pureward.agents.d4pg.agent import D4PG, Batch, D4PGConfig  # noqa: E402
from pureward.kernels.d4pg import update, weight_gradient  # noqa: E402
from pureward.kernels.d4pg.update import FusedUpdate, supports  # noqa: E402
from pureward.kernels.d4pg.verify import agrees  # noqa: E402

DEVICE = torch.device("cuda" if ON_CUDA else "cpu")
PAPER = D4PGConfig(
    actor_layers=(40, 20), critic_layers=(70, 36), atoms=21, value_low=-3.0, value_high=5.0,
    actor_rate=1e-3, critic_rate=3e-3,
)  # fmt: skip
SMALL = replace(PAPER, actor_layers=(18,), critic_layers=(24, 17), atoms=7, polyak=0.5)
STATE, ACTION, BATCH = 5, 3, 34


def agent(config: D4PGConfig) -> D4PG:
    made = D4PG(
        config,
        state_size=STATE,
        action_size=ACTION,
        device=DEVICE,
        arithmetic="plain",
    )
    # Targets that differ, and a norm that is not the identity.
    rng = torch.Generator().manual_seed(3)
    values = made.weights.values
    values += 0.1 * torch.randn(values.shape, generator=rng).to(DEVICE)
    return made


def fused_agent(config: D4PGConfig) -> D4PG:
    made = agent(config)
    made.arithmetic = "fused"
    # On CUDA nearly float32, for small tolerances.
    made._fused[BATCH] = FusedUpdate(made, BATCH, precision="tf32x3")
    return made


def batch(seed: int = 0) -> Batch:
    rng = torch.Generator().manual_seed(seed)
    terminal = torch.rand(BATCH, generator=rng) < 0.2
    drawn = {
        "state": torch.randn(BATCH, STATE, generator=rng),
        "action": torch.rand(BATCH, ACTION, generator=rng) * 2 - 1,
        "reward": 2 * torch.randn(BATCH, generator=rng),
        "discount": torch.where(terminal, 0.0, 0.9),
        "next_state": torch.randn(BATCH, STATE, generator=rng),
    }
    return Batch(**{name: tensor.to(DEVICE) for name, tensor in drawn.items()})


CONFIGS = {
    "paper": PAPER,
    "fast": replace(PAPER, norm_first=True, polyak=0.05),
    "normalised": replace(PAPER, normalise=True, target_period=2),
    "deep": replace(PAPER, actor_layers=(18,), critic_layers=(24, 17, 33), norm_first=True),
    "many atoms": replace(PAPER, atoms=201, critic_layers=(24, 17)),
}


@pytest.mark.parametrize("name", [*CONFIGS, "saturated"])
def test_updates_equal_plain_updates(name, monkeypatch):
    monkeypatch.setattr(weight_gradient, "_SHARE", 16)  # two shares per batch
    config = CONFIGS.get(name, PAPER)
    plain, fused = agent(config), fused_agent(config)
    if name == "saturated":
        for one in (plain, fused):
            one.actor.body.biases[-1].data += torch.tensor([3.0, -3.0, 0.0], device=DEVICE)
    for seed in range(2):
        steps = batch(seed)
        for one in (plain, fused):
            one.observe(steps.state * 3 + 1)
        expected, found = plain.update(steps), fused.update(steps)
        assert expected.keys() == found.keys()
        for key in expected:
            torch.testing.assert_close(found[key], expected[key], atol=1e-5, rtol=1e-4)
    kernels = fused._fused[BATCH]
    assert kernels is not None
    assert kernels.shares == 2
    right = dict(plain.tensors())
    for key, tensor in fused.tensors():
        torch.testing.assert_close(tensor, right[key], atol=2e-5, rtol=1e-3, msg=key)


def test_nan_propagates():
    for field in ("state", "reward"):
        learner, steps = fused_agent(SMALL), batch()
        getattr(steps, field)[3] = float("nan")
        assert not learner.update(steps)["critic/loss"].isfinite()
        assert not all(learner.finite().values())


def test_updates_are_bitwise_reproducible():
    one, two = fused_agent(SMALL), fused_agent(SMALL)
    for learner in (one, two):
        learner.update(batch())
    saved, other = one.state_dict(), two.state_dict()
    assert all(torch.equal(saved[name], other[name]) for name in saved)


def test_correct_kernels_agree():
    assert agrees(agent(replace(SMALL, norm_first=True, normalise=True)), BATCH)


class Wrong(FusedUpdate):
    """A correct update except for one fault."""

    fault = ""

    def find_gradients(self, batch):
        super().find_gradients(batch)
        if self.fault == "zero bias gradient":
            bias = self.agent.critic.body.biases[0]
            first = bias.storage_offset()
            self.gradients[:, first : first + bias.numel()] = 0
        if self.fault == "does not compile":
            raise RuntimeError("out of resources: shared memory\nand more")

    def move(self, gradients):
        before = self.agent.weights.parts[3].clone()
        metrics = super().move(gradients)
        if self.fault == "targets stay":
            self.agent.weights.parts[3].copy_(before)
        if self.fault == "wrong metrics":
            metrics["critic/loss"] *= 2
            metrics["critic/value"] *= 2
        if self.fault == "NaN":
            self.agent.weights.parts[0][0] = float("nan")
        return metrics


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("zero bias gradient", "relative error of the gradient by critic.body.biases.0 is 1"),
        ("does not compile", r"RuntimeError: out of resources: shared memory\); plain updates"),
        ("targets stay", "the error of a weight or a target is"),
        ("wrong metrics", "the relative error of the metrics is"),
        ("NaN", "the error of a weight or a target is nan"),
    ],
)
def test_wrong_kernels_are_not_used_and_warn(fault, reason, monkeypatch):
    monkeypatch.setattr(update, "FusedUpdate", Wrong)
    monkeypatch.setattr(Wrong, "fault", fault)
    with pytest.warns(RuntimeWarning, match=reason):
        assert not agrees(agent(SMALL), BATCH)


def test_supported_shapes():
    assert supports(D4PGConfig(), 24, 6)
    assert supports(D4PGConfig(norm_first=True), 70, 9)
    assert not supports(D4PGConfig(norm_first=True, critic_layers=(1024, 300)), 24, 6)
    assert supports(D4PGConfig(critic_layers=(1024, 300)), 24, 6)
    assert not supports(D4PGConfig(actor_layers=()), 24, 6)
    assert supports(D4PGConfig(atoms=256), 24, 6)
    assert not supports(D4PGConfig(atoms=257), 24, 6)
