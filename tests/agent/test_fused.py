"""The fused update against the plain one: on CUDA, else in Triton's interpreter."""

import os
from dataclasses import replace

import pytest
import torch

ON_CUDA = torch.cuda.is_available()
if not ON_CUDA:
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are first imported
pytest.importorskip("triton")

from pureward.agent.d4pg import D4PG, Batch, D4PGConfig  # noqa: E402
from pureward.agent.fused import teaching  # noqa: E402

DEVICE = torch.device("cuda" if ON_CUDA else "cpu")
PAPER = D4PGConfig(
    actor_layers=(40, 20), critic_layers=(70, 36), atoms=21, value_low=-3.0, value_high=5.0,
    actor_rate=1e-3, critic_rate=3e-3,
)  # fmt: skip
STATE, ACTION, BATCH = 5, 3, 37


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
    "clipped": replace(PAPER, gradient_clip=0.01, norm_first=True),
    "deep": replace(PAPER, actor_layers=(18,), critic_layers=(24, 17, 33), norm_first=True),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_updates_are_the_plain_ones(name, monkeypatch):
    monkeypatch.setattr(teaching, "_SHARE", 16)  # so that a batch has shares
    plain, fused = agent(CONFIGS[name]), agent(CONFIGS[name])
    monkeypatch.setattr(fused, "arithmetic", "fused")
    for seed in range(3):
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
