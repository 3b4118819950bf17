# SPDX-License-Identifier: Apache-2.0
"""Algorithm 1 by hand: which frames D learns from, which rewards reach the policy, and when."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from pureward.data.frames import FrameBank
from pureward.data.replay.memory import FrameMemory
from pureward.data.replay.replay import Replay, ReplayConfig
from pureward.purl import Adversary, Purl
from pureward.relabel import CachedLabels, FreshLabels
from pureward.types import Observation, Step

SHAPE = (3, 2, 2)
WORLDS = 2


def frames_of(numbers: Tensor) -> Tensor:
    """Frames filled with a number each."""
    return numbers.to(torch.uint8).view(-1, 1, 1, 1).expand(-1, *SHAPE).contiguous()


def seen(first: int) -> Observation:
    numbers = torch.tensor([first, first + 1])
    return Observation(state=numbers.float()[:, None], frames=frames_of(numbers))


def filled(rows: int, *, n_step: int = 2, capacity: int = 100) -> Replay:
    """Two worlds that see 0 and 1, then 2 and 3, …: step t arrives at 2t + 2 and 2t + 3."""
    config = ReplayConfig(capacity=capacity, n_step=n_step, discount=0.5)
    replay = Replay(
        config, worlds=WORLDS, horizon=50, state_size=1, action_size=1, frame_shape=SHAPE
    )
    for t in range(rows):
        add(replay, t)
    return replay


def add(replay: Replay, t: int) -> None:
    before, after = seen(2 * t), seen(2 * t + 2)
    no = torch.zeros(WORLDS, dtype=torch.bool)
    reward = torch.full((WORLDS,), torch.nan)  # the task's own; must not be used
    step = Step(obs=after, reward=reward, terminated=no, truncated=no, success=no, final_obs=after)
    replay.add(before, torch.zeros(WORLDS, 1), step)


class NumberReward:
    """A reward that is `factor` times the number in a frame."""

    parts = 1
    discriminator = object()

    def __init__(self) -> None:
        self.factor = 1.0
        self.scored: list[list[int]] = []

    def success_logits(self, frames: Tensor) -> Tensor:
        numbers = frames[:, 0, 0, 0].float()
        self.scored.append(numbers.int().tolist())
        return self.factor * numbers

    def scores(self, frames: Tensor) -> Tensor:
        return self.success_logits(frames)[None]

    def from_scores(self, scores: Tensor) -> Tensor:
        return scores[0]

    def __call__(self, frames: Tensor) -> Tensor:
        return self.success_logits(frames)


class Recorder:
    """An agent or a discriminator that records its batches."""

    def __init__(self) -> None:
        self.batches: list = []
        self.prior = torch.tensor(0.5)
        self.generator = torch.Generator().manual_seed(0)

    def update(self, *batch):
        self.batches.append(batch[0] if len(batch) == 1 else batch)
        return {"number": torch.tensor(float(len(self.batches)))}


def purl(replay: Replay, labels, *, adversary: Adversary | None = None, **options) -> Purl:
    rng = torch.Generator().manual_seed(0)
    agent = options.pop("agent", Recorder())
    return Purl(
        agent=agent, replay=replay, labels=labels, batch=8, generator=rng, adversary=adversary,
        **options,
    )  # fmt: skip


def adversary(first: int = 200, **options) -> Adversary:
    """Two episodes of positives; their arrivals are numbered from `first` + 1."""
    episodes = [
        SimpleNamespace(frames=frames_of(first + torch.arange(3)), rewards=torch.tensor(rewards))
        for rewards in ([0.0, 1.0], [0.0, 3.0])
    ]
    bank = FrameBank(episodes)  # type: ignore[arg-type]
    return Adversary(discriminator=Recorder(), positives=bank, **options)  # type: ignore[arg-type]


def test_rewards_are_those_of_the_arrival_states():
    """A window from number x sees x + 2 and x + 4: its return is (x + 2) + ½·(x + 4)."""
    replay, agent = filled(20), Recorder()
    learner = purl(replay, FreshLabels(NumberReward(), replay), agent=agent)  # type: ignore[arg-type]
    metrics = learner.improve(3)
    assert [len(batch.state) for batch in agent.batches] == [8, 8, 8]
    starts = torch.cat([batch.state[:, 0] for batch in agent.batches])
    assert len(starts.unique()) > 5
    whole = starts < 38  # a window from the newest step has one step only
    expected = (starts + 2) + torch.where(whole, 0.5 * (starts + 4), 0.0)
    assert torch.equal(torch.cat([batch.reward for batch in agent.batches]), expected)
    after = torch.cat([batch.next_state[:, 0] for batch in agent.batches])
    assert torch.equal(after, torch.where(whole, starts + 4, starts + 2))
    discount = torch.cat([batch.discount for batch in agent.batches])
    assert torch.equal(discount, torch.where(whole, 0.25, 0.5))
    assert metrics["number"] == 3, "metrics are the last update's"
    assert metrics["reward/mean"] == pytest.approx((starts + 2).mean().item())


def test_a_terminal_step_is_paid_for_the_absorbing_state_after_it():
    """γ = ½: a reward of 6 for ever after is ½ · 6 / (1 − ½) = 6 for the last step."""
    replay, agent = filled(0, n_step=1), Recorder()
    before, after = seen(0), seen(2)
    ends, no = torch.tensor([True, False]), torch.zeros(WORLDS, dtype=torch.bool)
    step = Step(
        obs=after,
        reward=torch.zeros(WORLDS),
        terminated=ends,
        truncated=no,
        success=no,
        final_obs=after,
    )
    replay.add(before, torch.zeros(WORLDS, 1), step)
    labels = FreshLabels(NumberReward(), replay)  # type: ignore[arg-type]
    spec = SimpleNamespace(reward="imitation", ceiling=9.0, absorbing=True)
    learned = SimpleNamespace(spec=spec, absorbing_reward=lambda: torch.tensor([6.0]))
    learner = purl(replay, labels, agent=agent, learned=learned)
    learner.improve(2)
    for batch in agent.batches:
        first = batch.state[:, 0] == 0
        assert torch.equal(batch.reward, torch.where(first, 2.0 + 6.0, 3.0))
        assert torch.equal(batch.discount, torch.where(first, 0.0, 0.5))


def test_rewards_at_the_ceiling_and_above_the_threshold_are_counted():
    replay = filled(1)  # arrivals 2 and 3 alone
    labels = FreshLabels(NumberReward(), replay)  # type: ignore[arg-type]
    learner = purl(replay, labels)
    learner.ceiling, learner.threshold = 3.0, 2.0
    metrics = learner.improve(8)
    threes = metrics["reward/mean"].item() - 2.0
    assert 0 < threes < 1
    assert metrics["reward/saturated"].item() == pytest.approx(threes)  # 3 is at the ceiling
    assert metrics["reward/open"].item() == pytest.approx(threes)  # 2 is not above itself


def test_d_learns_from_arrivals_of_positives_and_of_the_agent():
    replay, opponent = filled(20), adversary(batch=32)
    purl(replay, FreshLabels(NumberReward(), replay), adversary=opponent).discriminate(1)  # type: ignore[arg-type]
    ((positive, unlabeled),) = opponent.discriminator.batches  # type: ignore[attr-defined]
    assert set(positive[:, 0, 0, 0].tolist()) == {201, 202}, "without the first frames of episodes"
    numbers = set(unlabeled[:, 0, 0, 0].tolist())
    assert len(unlabeled) == 32
    assert numbers <= set(range(2, 42)), "arrivals only"


def test_known_failures_are_a_separate_batch():
    replay = filled(4)
    opponent = adversary(batch=5, failures=adversary(100).positives)
    purl(replay, FreshLabels(NumberReward(), replay), adversary=opponent).discriminate(1)  # type: ignore[arg-type]
    ((positive, _, failures),) = opponent.discriminator.batches  # type: ignore[attr-defined]
    assert positive.min() >= 201
    assert len(failures) == 5
    assert set(failures[:, 0, 0, 0].tolist()) <= {101, 102}


def test_half_of_the_unlabeled_is_from_the_memory():
    replay, memory = filled(4), FrameMemory(50, SHAPE, torch.device("cpu"))
    memory.add(frames_of(torch.full((3,), 99)), torch.Generator().manual_seed(0))
    opponent = adversary(memory=memory)
    frames, steps = opponent.unlabeled(replay, 16, torch.Generator().manual_seed(0))
    assert frames.shape == (16, *SHAPE)
    assert (frames[8:] == 99).all()
    assert torch.equal(frames[:8], replay.arrival_frames(steps))


def test_every_update_of_d_has_frames_of_its_own_and_half_from_the_memory():
    replay, memory = filled(40), FrameMemory(50, SHAPE, torch.device("cpu"))
    memory.add(frames_of(torch.full((3,), 99)), torch.Generator().manual_seed(0))
    opponent = adversary(memory=memory, batch=16)
    learner = purl(replay, FreshLabels(NumberReward(), replay), adversary=opponent)  # type: ignore[arg-type]
    metrics = learner.discriminate(3)
    assert [row["number"] for row in metrics] == [1, 2, 3]
    batches = opponent.discriminator.batches  # type: ignore[attr-defined]
    recent = [unlabeled[:, 0, 0, 0] for _, unlabeled in batches]
    assert [len(positive) for positive, _ in batches] == [16, 16, 16]
    assert [int((numbers == 99).sum()) for numbers in recent] == [8, 8, 8]
    assert len({tuple(numbers.tolist()) for numbers in recent}) == 3


def test_one_in_eight_of_the_newest_arrivals_is_added_to_the_memory():
    replay, memory = filled(1), FrameMemory(50, SHAPE, torch.device("cpu"))
    labels = FreshLabels(NumberReward(), replay)  # type: ignore[arg-type]
    learner = purl(replay, labels, adversary=adversary(memory=memory))
    for t in range(1, 30):
        add(replay, t)
        learner.arrive()
    kept = memory.sample(500, torch.Generator().manual_seed(0))[:, 0, 0, 0].unique().tolist()
    assert len(kept) == 29, "one of two worlds at every step"
    assert [number // 2 for number in kept] == list(range(2, 31))


def test_arrive_samples_with_the_generator_and_calls_labels():
    """Two of 17 worlds, sampled with the given generator only."""
    added, calls = [], []
    newest = SimpleNamespace(newest_steps=lambda: torch.arange(17), arrival_frames=frames_of)
    memory = SimpleNamespace(add=lambda frames, rng: added.append(frames[:, 0, 0, 0].tolist()))
    labels = SimpleNamespace(arrive=lambda: calls.append("arrived"))
    for seed in (1, 2):
        torch.manual_seed(seed)
        purl(newest, labels, adversary=adversary(memory=memory)).arrive()  # type: ignore[arg-type]
    assert [len(numbers) for numbers in added] == [2, 2]
    assert added[0] == added[1]
    assert calls == ["arrived", "arrived"]


def labelled(
    rows: int, *, capacity: int, refreshed: int
) -> tuple[Replay, NumberReward, CachedLabels]:
    """A replay whose steps were scored when they were added."""
    replay, reward = filled(0, capacity=capacity), NumberReward()
    labels = CachedLabels(reward, replay, refreshed=refreshed)  # type: ignore[arg-type]
    for t in range(rows):
        add(replay, t)
        labels.arrive()
    return replay, reward, labels


def test_cached_scores_are_of_arrivals_and_are_refreshed_in_turn():
    replay, reward, labels = labelled(3, capacity=12, refreshed=4)
    assert reward.scored == [[2, 3], [4, 5], [6, 7]]
    windows = replay.sample(64, torch.Generator().manual_seed(0))
    fresh = FreshLabels(NumberReward(), replay)(windows)  # type: ignore[arg-type]
    assert torch.equal(labels(windows), fresh)
    reward.factor = 10.0
    reward.scored.clear()
    labels.refresh()
    assert reward.scored == [[2, 3, 4, 5]]
    stale = fresh >= 6
    assert torch.equal(labels(windows), torch.where(stale, fresh, 10 * fresh))
    labels.refresh()
    assert reward.scored[1:] == [[6, 7, 2, 3]], "the next ones, then from the start"
    assert torch.equal(labels(windows), 10 * fresh)
    assert set(labels.tensors()) == {"scores", "next", "filled"}
    assert labels.tensors()["next"] == 2


def test_a_full_ring_is_refreshed_as_a_whole():
    _, reward, labels = labelled(7, capacity=8, refreshed=8)
    reward.scored.clear()
    labels.refresh()
    labels.refresh()
    # Rows 4, 5 and 6 have replaced 0, 1 and 2.
    assert reward.scored == [[10, 11, 12, 13, 14, 15, 8, 9]] * 2
