# SPDX-License-Identifier: Apache-2.0
"""Absorbing states by hand: their share, the frames that D sees, and what a terminal step pays."""

import pytest
import torch

from pureward.data.absorbing import Absorbing
from pureward.data.episodes import Episode
from pureward.data.replay.replay import Replay, ReplayConfig
from pureward.online.supervision import Supervision
from pureward.types import Observation, Step

SHAPE = (3, 4, 4)


def flags(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.bool)


def absorbing(*, positive_share: float = 0.0, recent: int = 1000) -> Absorbing:
    return Absorbing(
        horizon=10,
        positive_share=positive_share,
        recent=recent,
        frame_shape=SHAPE,
        device="cpu",
        worlds=2,
    )


def test_the_agent_s_share_counts_the_steps_that_are_left():
    """World 0 terminates at step 3 of 10: 7 of 7 + 6 steps are absorbing."""
    counted = absorbing(recent=10**9)
    for t in range(3):
        counted.arrive(flags(t == 2, 0), flags(t == 2, 0))
    assert float(counted.agent_share) == pytest.approx(7 / 13)
    counted.arrive(flags(1, 0), flags(1, 1))  # step 1 of a new episode; world 1 is cut at step 4
    assert float(counted.agent_share) == pytest.approx(16 / 24)


def test_a_time_limit_leaves_no_absorbing_steps():
    counted = absorbing()
    for _ in range(10):
        counted.arrive(flags(0, 0), flags(0, 1))
    assert float(counted.agent_share) == 0.0


def test_old_steps_are_forgotten():
    counted = absorbing(recent=20)
    counted.arrive(flags(1, 1), flags(1, 1))
    high = float(counted.agent_share)
    for _ in range(100):
        counted.arrive(flags(0, 0), flags(0, 0))
    assert high == pytest.approx(18 / 20)
    assert float(counted.agent_share) < 0.001


def test_frames_are_replaced_in_the_proportion_of_the_share():
    mixed, rng = absorbing(positive_share=0.25), torch.Generator().manual_seed(0)
    frames = torch.full((4000, *SHAPE), 9, dtype=torch.uint8)
    black = (mixed.among_positives(frames, rng) == 0).flatten(1).all(1)
    assert float(black.float().mean()) == pytest.approx(0.25, abs=0.03)
    assert torch.equal(mixed.among_unlabeled(frames, rng), frames)  # nothing has ended yet


def test_counts_are_saved():
    first, second = absorbing(), absorbing()
    first.arrive(flags(1, 0), flags(1, 0))
    second.load_tensors({name: value.clone() for name, value in first.tensors().items()})
    for counted in (first, second):
        counted.arrive(flags(0, 1), flags(0, 1))
    assert float(first.agent_share) == float(second.agent_share) > 0


def test_the_demonstrations_share():
    """Lengths 4 (terminal) and 6 (cut) with a limit of 10: 6 of 6 + 10 steps."""
    episodes = [
        Episode(
            frames=torch.zeros(length + 1, *SHAPE, dtype=torch.uint8),
            rewards=torch.zeros(length),
            terminated=ends,
        )
        for length, ends in ((4, True), (6, False))
    ]
    data = Supervision.of(episodes)
    assert data.absorbing_share(10) == pytest.approx(6 / 16)
    assert data.absorbing_share(4) == 0.0


def test_a_time_limit_far_beyond_the_demonstrations_is_told(capsys):
    frames = torch.zeros(5, *SHAPE, dtype=torch.uint8)
    data = Supervision.of([Episode(frames=frames, rewards=torch.zeros(4), terminated=True)])
    data.absorbing(80, recent=100)  # 76 of 80
    assert capsys.readouterr() == ("", "")
    data.absorbing(1000, recent=100)
    told = "".join(capsys.readouterr())
    assert "99.6% of D's positives are the absorbing state" in told
    assert "the time limit is 1,000 steps and demonstrations end after 4" in told


def test_a_terminal_window_is_paid_the_absorbing_reward_for_ever():
    """γ = 0.5, n = 2, r = 3: γ^m · 3 / (1 − γ) is 3 after one step and 1.5 after two."""
    config = ReplayConfig(capacity=8, n_step=2, discount=0.5)
    replay = Replay(config, worlds=1, horizon=4, state_size=1, action_size=1)
    for t, terminal in enumerate((False, False, True, False)):
        obs = Observation(state=torch.tensor([[float(t)]]), frames=None)
        after = Observation(state=torch.tensor([[t + 1.0]]), frames=None)
        step = Step(
            obs=after,
            reward=torch.zeros(1),
            terminated=flags(terminal),
            truncated=flags(0),
            success=flags(0),
            final_obs=after,
        )
        replay.add(obs, torch.zeros(1, 1), step)
    windows = replay.sample(200, torch.Generator().manual_seed(0))
    extra = windows.absorbing_return(torch.tensor([3.0]), 0.5)
    for start, expected in enumerate((0.0, 1.5, 3.0, 0.0)):
        chosen = windows.state[:, 0] == start
        assert chosen.any()
        assert (extra[chosen] == expected).all()
