# SPDX-License-Identifier: Apache-2.0
"""Checks whether data is fit to learn a reward from."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pureward.data.dataset import find_reader
from pureward.data.episodes import (
    HELD_OUT,
    SPLITS,
    TRAIN,
    row_per_frame_note,
    success_problem,
)
from pureward.data.guard import check_outside
from pureward.errors import InputError, check_seed, counted
from pureward.offline.leak import FEWEST_FRAMES, LeakReport, find_leak
from pureward.offline.matching import match_states
from pureward.offline.sources import describe
from pureward.offline.survey import Survey, Surveyed, survey
from pureward.rewards.annotations import reward_problem
from pureward.rewards.priors.estimated import FEWEST_EPISODES
from pureward.settings import as_path, checked

if TYPE_CHECKING:
    from pureward.data.dataset import Source

_STILL = 0.5  # share of an episode that equal frames may fill
_SHORTEST_STILL = 10  # frames; a short pause is no fault
_SHARED = 0.5  # share of an episode's different frames that occur elsewhere; above it is a copy
_NAMED = 5  # episodes listed in a sentence
_WORLDS, _RESETS = 8, 8  # of an environment whose first frames are compared


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a check found."""

    facts: list[str]
    """What the data is."""
    problems: list[str]
    """What should be changed, and how."""
    leak: LeakReport | None = None
    """Whether both sides can be told apart where behaviour is the same, if there are two."""
    picture: Path | None = None
    """What the classifier of the leak check looks at."""


def check(
    source: "Source",
    *,
    against: "Source | str | None" = None,
    images: str | Sequence[str] = (),
    held_out: float = 0.2,
    states: bool = False,
    out: str | Path | None = None,
    frames: str = "render",
    device: str = "cpu",
    seed: int = 0,
) -> Checked:
    """Check a dataset, alone or against another one or an environment.

    Args:
        source: anything that `read_episodes` takes.
        against: logs or agent data, the same way, or the name of an environment; then the leak
            check compares the first frames of both.
        images: names of the images to stack as channels, if the data has several.
        held_out: share of the episodes to hold out, if the data has no splits.
        states: compare frames of nearly equal states instead of first frames, for data that does
            not begin from the same states; both sides must store states.
        out: PNG file for the picture of the leak check; None for none.
        frames: of a Gymnasium environment, as in `pureward.make`.
        device: where frames are drawn, if the data has states only.
        seed: of the leak check and of the environment.
    """
    checked("states", states, False)
    picture = None if out is None else as_path("out", out, "name a PNG file")
    seed, is_data = check_seed(seed), _is_data(against)
    if states and not is_data:
        raise InputError(f"states needs data to compare with, got {against!r}; leave states out")
    if picture is not None and against is not None:
        from pureward.picture import check_figure

        check_figure(picture)
        for side in (source, against) if is_data else (source,):  # it would become a frame
            check_outside(picture, describe(side))
    ours = survey(source, images, held_out, device)
    facts, problems = _facts(ours), list(_problems(ours))
    if against is None:
        return Checked(facts=facts, problems=problems)
    if is_data:
        theirs = survey(against, images, held_out, device)
        name, pair = theirs.name, (ours.firsts, theirs.firsts)
        facts += _facts(theirs)
        if ours.shapes != theirs.shapes:
            facts.append("both sides are stored in different shapes, and compared after resizing")
        problems += [*_problems(theirs, positives=False), *_between(ours, theirs)]
        if states:
            pair = _matched(ours, theirs, seed)
            facts.append(f"{len(pair[0])} episodes of either side have a state in common")
    else:
        name = str(against)
        pair = (ours.firsts, _first_frames(name, frames, device, seed))
        facts.append(f"{name}: {len(pair[1])} first frames of an environment")
    if min(map(len, pair)) < FEWEST_FRAMES:
        counts = f"{len(pair[0])} of {ours.name} and {len(pair[1])} of {name}"
        problems.append(
            f"the leak check needs frames of at least {FEWEST_FRAMES} episodes on either side, got "
            f"{counts}; record more"
        )
        return Checked(facts=facts, problems=problems)
    leak = find_leak(*pair, seed=seed)
    (problems if leak.found else facts).append(str(leak))
    if picture is not None:
        from pureward.offline.picture import draw_leak

        draw_leak(leak, (ours.name, name), picture)
    return Checked(facts=facts, problems=problems, leak=leak, picture=picture)


def _matched(ours: Survey, theirs: Survey, seed: int) -> tuple[Tensor, Tensor]:
    """Frames of nearly equal states, one of an episode of either side."""
    pairs = match_states(ours.states(), theirs.states(), seed=seed)
    if not pairs:
        return torch.empty(0), torch.empty(0)
    first = torch.cat([ours.frame(*place) for place, _ in pairs])
    return first, torch.cat([theirs.frame(*place) for _, place in pairs])


def _is_data(source: object) -> bool:
    """Whether it is data; otherwise it is the name of an environment."""
    if not isinstance(source, str) or os.path.lexists(source):
        return True
    try:
        find_reader(source)  # the id of a Minari dataset
    except InputError as error:
        from pureward.envs import ENVIRONMENTS
        from pureward.envs.tasks import TASKS

        names = (*TASKS, *ENVIRONMENTS)
        if ":" in source or source in names:
            return False
        raise InputError(
            f"{source} is no file or folder, and no environment; check the path, or choose from "
            f"{', '.join(names)}, gym:ID and MODULE:FUNCTION"
        ) from error
    return True


def _first_frames(name: str, keys: str, device: str, seed: int) -> Tensor:
    from pureward.envs import make

    with make(name, _WORLDS, device, seed=seed, cameras=True, frames=keys) as env:
        seen = [env.reset().frames for _ in range(_RESETS)]
    return torch.cat([frames.cpu() for frames in seen if frames is not None])


def _facts(found: Survey) -> list[str]:
    episodes = found.episodes
    steps = [episode.steps for episode in episodes]
    shapes, (height, width) = found.shapes, found.firsts.shape[2:]
    shape = _in_words(shapes)
    if any(one[1:] != (height, width) for one in shapes):
        shape += f", resized to {height}×{width}"
    splits = Counter(episode.split for episode in episodes)
    counts = ", ".join(f"{splits[name]} {name}" for name in SPLITS if splits[name])
    lines = [
        f"{found.name}: {counted(len(episodes), 'episode')} ({counts}), "
        f"{counted(sum(steps), 'step')} of {shape}; "
        f"lengths {min(steps):,} to {max(steps):,}, median {median(steps):,.0f}"
    ]
    if found.rewards is not None:
        low, high = found.rewards
        rated = sum(episode.rewards is not None for episode in episodes)
        lines.append(f"{found.name}: rewards of {counted(rated, 'episode')}, {low:g} to {high:g}")
    if known := [episode.outcome for episode in episodes if episode.outcome is not None]:
        lines.append(f"{found.name}: success in {sum(known):,} of {counted(len(known), 'episode')}")
    if any(episode.row_per_frame for episode in episodes):
        lines.append(row_per_frame_note(found.name))
    if found.painter is not None:
        lines.append(f"{found.name}: frames are drawn from states; only the first were looked at")
    return lines


def _problems(found: Survey, *, positives: bool = True) -> Iterator[str]:
    """Yield what is wrong with one dataset, with its remedy."""
    name, episodes = found.name, found.episodes
    usual = found.shapes
    other = [n for n, episode in enumerate(episodes) if episode.shapes != usual]
    if other:
        yield (
            f"{name}: stored frames must have one shape, and those of {_named(other)} are not "
            f"{_in_words(usual)}; bring them to one shape, or drop them"
        )
    held = len(found.split(HELD_OUT))
    if positives and held < FEWEST_EPISODES:
        yield (
            f"{name}: an estimate of η needs at least {FEWEST_EPISODES} held-out episodes, got "
            f"{held}; record more, raise --held-out, or give η to the training, --prior 0.5"
        )
    if positives and (problem := success_problem(name, ((e.split, e.outcome) for e in episodes))):
        yield problem
    if found.rewards is not None and (problem := reward_problem(name, *found.rewards)):
        yield problem
    if found.blank:  # so they all look alike, which need not be told
        yield (
            f"{name}: all frames are black or of one colour; were they divided by 255? Store uint8 "
            "from 0 to 255"
        )
        return
    empty = [n for n, episode in enumerate(episodes) if episode.empty]
    if empty:
        count = sum(episodes[n].empty for n in empty)
        frames = f"{counted(count, 'frame')} black or of one colour"
        yield f"{name}: {frames}, in {_named(empty)}; drop them"
    most = [max(_SHORTEST_STILL, _STILL * (episode.steps + 1)) for episode in episodes]
    still = [n for n, episode in enumerate(episodes) if episode.still > most[n]]
    if still:
        yield (
            f"{name}: the picture stands still for most of {_named(still)}; check the camera, or "
            "cut the end"
        )
    copies = _copies(found.split(TRAIN), [e for e in episodes if e.split != TRAIN])
    if copies:
        yield (
            f"{name}: most frames of {counted(copies, 'held-out or failed episode')} are in the "
            "training split, so nothing is measured on them; remove the copies"
        )
    whole = Counter(e.digests for e in found.split(TRAIN) if e.digests)
    twice = sum(count - 1 for count in whole.values())
    if twice:
        yield f"{name}: training episodes have {counted(twice, 'copy', 'copies')}; remove them"


def _between(ours: Survey, theirs: Survey) -> Iterator[str]:
    """Yield what is wrong between two datasets, apart from the leak check."""
    if ours.dataset.lossy != theirs.dataset.lossy:
        lossy = ours if ours.dataset.lossy else theirs
        yield (
            f"{lossy.name} was compressed with loss and the other side was not, which a "
            "discriminator can learn; store both the same way"
        )
    copies = 0 if ours.blank else _copies(theirs.episodes, ours.episodes)
    if copies:
        yield (
            f"{theirs.name} has {counted(copies, 'episode')} of {ours.name} too; remove them "
            "there: otherwise D sees the same frames as positives and as unlabeled"
        )


def _copies(known: Sequence[Surveyed], others: Sequence[Surveyed]) -> int:
    """How many of the others have most of their frames among those of known episodes.

    Equal frames of an episode count once: many episodes rest in one last state.
    """
    seen = {digest for episode in known for digest in episode.digests[1:]}
    distinct = [set(episode.digests[1:]) for episode in others]
    return sum(len(own & seen) > _SHARED * len(own) for own in distinct if own)


def _in_words(shapes: Sequence[tuple[int, ...]]) -> str:
    return " and ".join("×".join(map(str, shape)) for shape in shapes)


def _named(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_NAMED]))
    more = f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else ""
    return f"episode{'s' if len(numbers) > 1 else ''} {shown}{more}"
