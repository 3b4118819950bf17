# SPDX-License-Identifier: Apache-2.0
"""Scores a dataset with a learned reward, into a folder that can be continued."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from operator import index
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from pureward.data.dataset import (
    Dataset,
    find_reader,
    image_names,
    in_another_order,
    in_memory,
    read_episodes,
)
from pureward.data.draw import with_frames
from pureward.data.fingerprint import fingerprint
from pureward.data.guard import check_fits, check_outside
from pureward.data.lazy import LazyFrames
from pureward.data.writers.own import write_dataset
from pureward.errors import InputError, counted
from pureward.files import check_writable, clear_leftovers, locked_folder, read_object, write_json
from pureward.progress import Progress
from pureward.rewards.learned import LearnedReward, RewardSpec, check_discount
from pureward.rewards.saved import load_reward
from pureward.scoring.agreement import agreement
from pureward.scoring.pipeline import columns, score_episodes
from pureward.scoring.table import Scores, Table
from pureward.settings import as_path, checked
from pureward.types import find_device

_ABOUT = "score.json"
_RATE = 20.0  # frames per second of films of datasets that do not state theirs


@dataclass(frozen=True, kw_only=True)
class Scored:
    """What `score` found and wrote."""

    scores: Scores
    continued: int
    """Episodes that an earlier call had scored."""
    files: list[Path]
    agreement: str
    """Correlation with the dataset's own rewards in words; "" if it has none."""

    def summary(self) -> str:
        """Return counts and means in words."""
        values = self.scores.columns
        parts = [
            counted(len(self.scores), "episode"),
            counted(len(values["reward"]), "frame"),
            f"mean reward {values['reward'].mean():.3f}",
        ]
        if "D" in values:
            parts.append(f"D above ½ on {(values['D'] > 0.5).mean():.0%}")
        return ", ".join(parts)


def score(
    reward: str | os.PathLike[str],
    source: str | os.PathLike[str],
    out: str | Path,
    *,
    images: str | Sequence[str] | None = None,
    copy: bool = False,
    films: Sequence[int] = (),
    discount: float | None = None,
    device: str = "auto",
) -> Scored:
    """Write the rewards of all frames of a dataset as OUT/rewards.parquet.

    A call that was interrupted is continued by the same call; one that was finished adds a copy or
    films. Episodes are numbered as `read_episodes` does. A row of the table is a frame; the reward
    of step t is that of frame t + 1.

    Args:
        reward: a run directory, or the folder of a saved reward.
        source: a path, or the id of a Minari dataset in the local cache, as for `read_episodes`.
        out: folder of the table; new, or that of an earlier call.
        images: names of the images in the source, in the order of the reward's cameras; by default
            those that the reward was trained on, if it knows their names and the source has them.
        copy: also write the dataset with these rewards: OUT/relabelled for LeRobot,
            OUT/relabelled.hdf5 for robomimic, OUT/relabelled in our own format for others.
        films: numbers of episodes to write as OUT/episode-N.mp4, above curves of their values.
        discount: γ of the RL library that will use the copy; needed if the reward has an absorbing
            state, which terminal steps are paid for.
        device: "auto" (CUDA if available), "cpu" or "cuda".
    """
    if not isinstance(source, str | os.PathLike):
        raise InputError(
            f"score reads a dataset by its path, got {type(source).__name__}; name its folder"
        )
    out, images = as_path("out", out), image_names(images)
    checked("copy", copy, False)
    discount = None if discount is None else check_discount(discount)
    check_outside(out, source)
    check_writable(out)
    learned = load_reward(reward, device=find_device(device))
    print(f"{reward}: a reward of {learned.spec.channels}")
    dataset, images = _open(source, images, learned.spec)
    films = _film_numbers(films, dataset)
    bonus = _terminal_reward(learned, discount) if copy else 0.0
    about = {
        "reward": _digest(learned),
        "arithmetic": learned.arithmetic,
        "source": str(Path(source).resolve()) if Path(source).exists() else str(source),
        "images": list(dataset.images),
        "episodes": len(dataset),
        "columns": columns(learned),
        "data": fingerprint(source, images),
    }
    with locked_folder(out.resolve()):
        copied = _check_same(out, about).get("discount")  # of the copy, if there is one
        table = Table(out, about["columns"])
        continued = len(dataset) if table.file.exists() else table.done()
        _write_table(table, learned, dataset, continued, f"{source}")
        table.finish()
        scores = table.load()
        if len(scores) != len(dataset):
            raise InputError(f"{table.file} has other episodes than {source}; delete it")
        made = Scored(
            scores=scores,
            continued=continued,
            files=[table.file],
            agreement=agreement(scores, dataset),
        )
        if copy:
            whole = read_episodes(source, images=images, size=None)
            target = out / f"relabelled{find_reader(source).copy_suffix}"
            if not target.exists():
                copied = discount
                write_json(out / _ABOUT, about | {"state": "unfinished", "discount": copied})
                _copy(Path(source), target, whole, made.scores, bonus)
            elif learned.spec.absorbing and copied not in (None, discount):
                raise InputError(
                    f"{target} was made with discount {copied}, got {discount}; delete it first"
                )
            made.files.append(target)
        made.files.extend(_film(out, dataset, made.scores, number) for number in films)
        end = {"state": "finished", "discount": copied, "summary": made.summary()}
        write_json(out / _ABOUT, about | end)
    return made


def _open(
    source: str | os.PathLike[str], images: tuple[str, ...], spec: RewardSpec
) -> tuple[Dataset, tuple[str, ...]]:
    """The dataset in the reward's size, and the images that were chosen in it."""
    size = (spec.network.height, spec.network.width)
    chosen = images or spec.images
    try:
        dataset = read_episodes(source, images=chosen, size=size)
    except InputError as error:
        if images:
            raise
        chosen = ()  # the source may have one image, of another name or none
        try:
            dataset = read_episodes(source, size=size)
        except InputError:
            raise error from None
    if in_another_order(dataset.images, spec.images):
        raise InputError(
            f"images must be in the order that the reward was trained on, {list(spec.images)}, got "
            f"{list(dataset.images)} of {source}; choose --images {' '.join(spec.images)}, here or "
            "in the import that made it"
        )
    return dataset, chosen


def _film_numbers(films: Any, dataset: Dataset) -> list[int]:
    """The numbers of the episodes to film, of those that a dataset has."""
    try:
        numbers = [index(number) for number in films]
    except TypeError as error:
        raise InputError(
            f"films must be a list of episodes' numbers, got {films!r}; try films=[0]"
        ) from error
    outside = [number for number in numbers if not 0 <= number < len(dataset)]
    if outside:
        raise InputError(
            f"{dataset.path} has episodes 0 to {len(dataset) - 1}, got {outside[0]} in films; "
            "choose others"
        )
    return numbers


def _write_table(
    table: Table, learned: LearnedReward, dataset: Dataset, begin: int, title: str
) -> None:
    if begin == len(dataset):
        return
    scored = score_episodes(learned, dataset, range(begin, len(dataset)))
    frames = 0
    with Progress(total=len(dataset), initial=begin, desc=title, unit="episode") as bar:
        for _, count in table.write(scored):
            frames += count
            bar.set_postfix_str(f"{frames:,} frames", refresh=False)
            bar.update()


def _digest(reward: LearnedReward) -> str:
    """A hash of the settings and weights of a reward."""
    found = hashlib.sha256(json.dumps(asdict(reward.spec), sort_keys=True).encode())
    networks = [reward.discriminator] if reward.discriminator is not None else []
    for network in (*networks, *reward.members):
        for name, tensor in sorted(network.state_dict().items()):
            found.update(name.encode())
            found.update(tensor.float().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def _check_same(out: Path, about: dict[str, Any]) -> dict[str, Any]:
    """Refuse a folder of other scores, or of anything else; begin if it has no scores yet.

    Returns:
        What score.json says.
    """
    before = read_object(out / _ABOUT, absent=(FileNotFoundError,))
    if before:
        clear_leftovers(out)
    if not any(path.name != _ABOUT for path in out.iterdir()):
        write_json(out / _ABOUT, about | {"state": "unfinished"})
        return about
    if not before:
        raise InputError(f"{out} must be a new folder or one of scores; choose another")
    before.setdefault("data", about["data"])  # the first scores did not note what their data was
    for name, value in about.items():
        if before.get(name) != value:
            raise InputError(
                f"{out} holds scores of another call: {name} was {before.get(name)!r:.80}, and is "
                f"{value!r:.80} now; choose another folder"
                if name != "data"
                else f"{out} holds scores of other episodes than {about['source']} has now; choose "
                "another folder, or delete it"
            )
    return before


def _terminal_reward(reward: LearnedReward, discount: float | None) -> float:
    if reward.spec.absorbing and discount is None:
        raise InputError(
            "a reward with an absorbing state needs the discount of the RL library that will use "
            "the copy, got None; pass discount, such as 0.99"
        )
    return reward.terminal_reward(0.0 if discount is None else discount)


def _copy(source: Path, target: Path, dataset: Dataset, scores: Scores, bonus: float) -> None:
    """Write the dataset with the rewards of arrival frames; terminal steps get a bonus."""

    def rewards(number: int) -> NDArray:
        values = scores.of(number)["reward"][1:].copy()
        if bonus and dataset[number].terminated:
            values[-1] += bonus
        return values

    copy = find_reader(source).copy
    if copy is not None:
        copy(source, target, rewards)
    else:
        rated = (
            replace(episode, rewards=torch.from_numpy(rewards(number)), rated=True)
            for number, episode in enumerate(dataset)
        )
        write_dataset(target, dataset, rated)


def _film(out: Path, dataset: Dataset, scores: Scores, number: int) -> Path:
    """Write an episode above the curves of its values."""
    from pureward.diagnostics.evidence import ScoredEpisode
    from pureward.diagnostics.strip import film_strip

    path = out / f"episode-{number}.mp4"
    if path.exists():
        return path
    (episode,) = with_frames(dataset, [number])
    if isinstance(episode.frames, LazyFrames):
        check_fits(3 * episode.frames.nbytes)
    values = {name: torch.from_numpy(v[1:].copy()) for name, v in scores.of(number).items()}
    seen = ScoredEpisode(
        episode=in_memory(episode),
        learned=values["reward"],
        success=values.get("D"),
        predicted=values.get("r_phi", None if "D" in values else values["reward"]),
    )
    film_strip(seen.strip(f"episode {number}"), path, dataset.fps or _RATE)
    return path
