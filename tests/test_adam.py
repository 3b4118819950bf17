"""Our Adam beside torch's."""

import pytest
import torch

from pureward.adam import Adam


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


def test_weights_may_have_any_layout_and_the_rate_may_change():
    rng = torch.Generator().manual_seed(0)
    ours = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    theirs = torch.nn.Conv2d(3, 4, 3)
    theirs.load_state_dict(ours.state_dict())
    optimizer = Adam(dict(ours.named_parameters()), 1e-2)
    reference = torch.optim.Adam(theirs.parameters(), lr=1e-2)
    for rate in (1e-2, 1e-3):
        optimizer.set_rate(rate)
        reference.param_groups[0]["lr"] = rate
        for _ in range(5):
            x = torch.randn(2, 3, 8, 8, generator=rng)
            for network in (ours, theirs):
                network.zero_grad()
                network(x).square().sum().backward()
            optimizer.step()
            reference.step()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    assert len(optimizer.changed()) == 8  # weight and bias: value, steps and two moments
