"""The sampler's kernel compared with plain torch, on CUDA or in Triton's interpreter."""

import os
from dataclasses import fields

import pytest
import torch

ON_CUDA = torch.cuda.is_available()
if not ON_CUDA:
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are first imported
pytest.importorskip("triton", reason="needs Triton: pip install -e '.[kernels]'")

from pureward.data.replay.replay import Replay, ReplayConfig  # noqa: E402
from pureward.kernels import windows as fused_sampler  # noqa: E402
from pureward.kernels.windows import fused_windows  # noqa: E402
from pureward.types import Observation, Step  # noqa: E402

DEVICE = torch.device("cuda" if ON_CUDA else "cpu")


def filled(worlds: int, rows: int, added: int, n_step: int) -> Replay:
    """A replay with random steps; some episodes are terminated, some truncated."""
    replay = Replay(
        ReplayConfig(capacity=worlds * rows, n_step=n_step, discount=0.9),
        worlds=worlds,
        horizon=4,
        state_size=3,
        action_size=2,
        device=DEVICE,
    )
    rng = torch.Generator().manual_seed(added)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=rng).to(DEVICE)

    for row in range(added):
        obs, arrived = (Observation(state=drawn(worlds, 3), frames=None) for _ in range(2))
        terminated = drawn(worlds) > 1
        step = Step(
            obs=obs,
            reward=drawn(worlds),
            terminated=terminated,
            truncated=~terminated & (row % 4 == 3),
            success=terminated,
            final_obs=arrived,
        )
        replay.add(obs, drawn(worlds, 2), step)
    return replay


@pytest.mark.parametrize("worlds", [1, 3, 8])
@pytest.mark.parametrize(("rows", "added"), [(20, 7), (6, 6), (6, 29)])
def test_windows_equal_plain_windows(worlds, rows, added):
    sampler = filled(worlds, rows, added, n_step=3)._sampler
    # All stored steps, and both ends of the range.
    fraction = torch.linspace(0, 1 - 2**-53, 100, dtype=torch.float64, device=DEVICE)
    right, found = sampler.plain_windows(fraction), sampler._fused_windows(fraction)
    for field in fields(right):
        assert torch.equal(getattr(found, field.name), getattr(right, field.name)), field.name


def test_kernel_that_differs_is_not_used(monkeypatch):
    sampler = filled(2, 6, 9, n_step=3)._sampler
    monkeypatch.setattr(sampler, "_fused", None)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)

    def shifted(*tables):
        return fused_windows(*tables[:-1], tables[-1].flip(0))

    monkeypatch.setattr(fused_sampler, "fused_windows", shifted)
    fraction = torch.rand(64, dtype=torch.float64, device=DEVICE)
    with pytest.warns(RuntimeWarning, match="its state, action, .* differ"):
        windows = sampler.windows(fraction)
    assert torch.equal(windows.state, sampler.plain_windows(fraction).state)
    assert sampler._fused is False


def test_kernel_that_agrees_is_used(monkeypatch):
    sampler = filled(2, 6, 9, n_step=3)._sampler
    monkeypatch.setattr(sampler, "_fused", None)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    fraction = torch.rand(8, dtype=torch.float64, device=DEVICE)
    assert torch.equal(sampler.windows(fraction).steps, sampler.plain_windows(fraction).steps)
    assert sampler._fused is True
