"""Our Adam beside torch's."""

import pytest
import torch

from pureward.agents.d4pg.adam import Adam


@pytest.mark.parametrize("rates", [(1e-2, 1e-2), (1e-2, 1e-3)])
def test_steps_are_those_of_torch(rates):
    rng = torch.Generator().manual_seed(0)
    ours = {name: torch.randn(10, generator=rng) for name in ("actor", "critic")}
    theirs = [torch.nn.Parameter(flat.clone()) for flat in ours.values()]
    optimizer = Adam(ours, dict(zip(ours, rates, strict=True)))
    groups = [{"params": [p], "lr": rate} for p, rate in zip(theirs, rates, strict=True)]
    reference = torch.optim.Adam(groups)
    for _ in range(20):
        for flat, parameter in zip(ours.values(), theirs, strict=True):
            flat.grad = torch.randn(10, generator=rng)
            parameter.grad = flat.grad.clone()
        optimizer.step()
        reference.step()
    for flat, parameter in zip(ours.values(), theirs, strict=True):
        torch.testing.assert_close(flat, parameter.detach())
    assert all(t.item() == 20 for name, t in optimizer.tensors() if name.endswith("steps"))
