# SPDX-License-Identifier: Apache-2.0
"""The kinds of file that pureward reads: a real one of each, and the call that reads it.

Files lie in a folder with two runs and several datasets, and all paths are relative to it.
"""

import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage

import pureward
from fuzz_formats import (
    ARRAYS,
    FILMS,
    IMAGES,
    PICTURES,
    ROBOMIMIC,
    SKETCHES,
    VIDEOS,
    change_array,
    change_parquet,
    read_format,
    write_formats,
)
from fuzz_hdf5 import change_hdf5
from fuzz_mutations import (
    ANY,
    Mutation,
    change_header,
    change_json,
    change_tensors,
    replace_kind,
)
from pureward import demo
from pureward.cli.parsing import parse
from pureward.cli.runs import run_verbs
from pureward.data.draw import Painter
from pureward.data.sketches import SUFFIX
from pureward.diagnostics.history import read_eta, read_histories
from pureward.diagnostics.plot import curves
from pureward.distributed.training import Training, wall_seconds
from pureward.rewards.priors.estimated import FEWEST_EPISODES
from pureward.runs.collect import collect
from pureward.runs.config import RunConfig
from pureward.runs.directory import RunDirectory, steps_made
from pureward.runs.policy import load_policy, snapshots
from pureward.runs.references import find_references
from stress_run import INTERVAL, WORLDS, small_run

LEARNED, PLAIN = Path("learned"), Path("plain")
FRAMES, STATES, JPEG = Path("annotations"), Path("states"), Path("jpeg")
FITTED = Path("fitted")
_NEWEST = f"checkpoints/step-{2 * INTERVAL:012d}"


def settings(run: Path) -> RunConfig:
    """Of one of the two runs; the plain one learns from the task's own reward."""
    config = small_run(run, FRAMES, env_steps=2 * INTERVAL)
    if run == LEARNED:
        return config
    return replace(config, method="truth", annotations="", prior="", probe_every=0)


def write_material() -> None:
    """Write two runs and datasets of every format to the working directory."""
    pureward.train(settings(PLAIN))
    few = {"episodes": 2, "held_out": FEWEST_EPISODES, "failures": 1, "device": "cpu"}
    collect("reach", PLAIN, FRAMES, frames=True, **few)
    collect("reach", PLAIN, STATES, **few)
    Training(config=settings(LEARNED)).run()
    _write_jpeg(JPEG)
    write_formats()
    fit_reward(updates=2)


def _write_jpeg(folder: Path) -> None:
    """A dataset of images as others write it, compressed as JPEG."""
    folder.mkdir()
    space = spaces.Box(0, 255, (64, 64, 3), np.uint8)
    storage = MinariStorage.new(
        folder.resolve(),
        observation_space=space,
        action_space=spaces.Discrete(3),
        jpeg_encoding=True,
    )
    rng, steps = np.random.default_rng(0), 3
    columns: dict[str, Any] = {
        "observations": rng.integers(256, size=(steps + 1, 64, 64, 3), dtype=np.uint8),
        "actions": rng.integers(3, size=steps),
        "rewards": rng.random(steps),
        "terminations": np.zeros(steps, dtype=bool),
        "truncations": np.zeros(steps, dtype=bool),
    }
    storage.update_episodes(EpisodeBuffer(**columns, infos={}) for _ in range(2))


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of file: where it lies, how it is damaged, and what reads it."""

    files: tuple[Path, ...]
    read: Callable[[Path], Any]
    """Takes the path of the damaged file; what it returns must hold nothing from outside."""
    mutations: tuple[Mutation, ...]
    format: str = ""
    """Reader of the dataset that the file belongs to; "" for files of runs and rewards."""

    @property
    def folders(self) -> set[str]:
        """Folders of the material that a dataset of this kind consists of."""
        own = {file.parts[0] for file in self.files}
        return own | {name.removesuffix(SUFFIX) for name in own}  # sketches lie beside their data


def _resume(file: Path) -> None:
    """Restore the newest checkpoint of a run and go on for two steps of every world."""
    config = settings(Path(file.parts[0]))
    pureward.train(replace(config, env_steps=config.env_steps + 2 * WORLDS), resume=True)


def _config(file: Path) -> None:
    """All that looks at a run's settings."""
    run = Path(file.parts[0])
    arguments = ["train", "reach", "--resume", "--out", str(run)]
    calls = (
        lambda: _policy(file),
        lambda: _look(file),
        lambda: parse(run_verbs(arguments), arguments),
        lambda: _resume(file),
    )
    refusal: pureward.InputError | None = None
    for call in calls:
        try:
            call()
        except pureward.InputError as error:  # the others may still fail otherwise
            refusal = error
    if refusal is not None:
        raise refusal


def _status(file: Path) -> None:
    run = Path(file.parts[0])
    steps_made(RunDirectory(run).read_status())
    Training(config=settings(run)).finished()
    wall_seconds(run)


def _look(file: Path) -> str:
    """Draw and judge the run, as `pureward plot` and reports do."""
    histories = read_histories([Path(file.parts[0])])
    for history in histories:
        read_eta(history)
    try:
        curves(histories, metric="return", by="steps")
    finally:
        plt.close("all")
    return str([history.verdict() for history in histories])


def _policy(file: Path) -> torch.Tensor:
    run = Path(file.parts[0])
    return load_policy(run).act(torch.zeros(1, 4))


def _reward(file: Path) -> torch.Tensor:
    return pureward.load_reward(LEARNED)(torch.zeros(2, 3, 64, 64, dtype=torch.uint8))


@cache
def _painter() -> Painter:
    return Painter("reach", worlds=4)


def _dataset(file: Path) -> list[torch.Tensor]:
    dataset = pureward.read_dataset(file.parts[0])
    parts = []
    for episode in dataset.episodes[:20]:
        whole = episode if len(episode) > 100 else _painter().draw(episode)
        columns = (whole.rewards, whole.actions, whole.state, whole.frames, whole.success)
        parts += [part for part in columns if part is not None]
    return parts


def _card(file: Path) -> str:
    demo._dataset_text(Path(), str(FRAMES))
    return str(find_references({"demonstrations": str(FRAMES)}))


def _lock(file: Path) -> None:
    with RunDirectory(Path(file.parts[0])) as directory:
        directory.in_use()


def _fitting(mutation: Mutation) -> Mutation:
    """The same damage, with the size of the tensors in facts.json made to fit, without a sum."""

    def damage(path: Path, outside: Path, chance: random.Random) -> str:
        told, facts = mutation(path, outside, chance), path.with_name("facts.json")
        known = json.loads(facts.read_text())
        known.pop("sum", None)
        facts.write_text(json.dumps(known | {"bytes": path.stat().st_size}))
        return told

    return damage


def _refit(file: Path) -> None:
    """Continue a fit for one update."""
    fit_reward(updates=3)


def fit_reward(updates: int) -> None:
    """Fit a reward to the arrays, or continue."""
    pureward.fit(
        ARRAYS,
        demonstrations=ARRAYS,
        prior=0.5,
        updates=updates,
        out=FITTED,
        config=replace(small_run(LEARNED, FRAMES).reward, memory=0, labels="fresh"),
        device="cpu",
    )


def _kind(read: Callable[[Path], Any], files: list[Path], *own: Mutation, of: str = "") -> Kind:
    return Kind(read=read, files=tuple(files), mutations=(*own, *own, *ANY), format=of)


def kinds() -> dict[str, Kind]:
    """All kinds by name; call it where the material lies."""
    both = (PLAIN, LEARNED)
    newest = {run: snapshots(run)[-1] for run in both}
    sets = {name: name / "data" for name in (FRAMES, STATES)} | {JPEG: JPEG}
    facts = sorted((PLAIN / "checkpoints").glob("step-*/facts.json"))
    tensors = (change_header, change_tensors)
    fitting = tuple(map(_fitting, (*tensors, change_tensors, change_tensors)))
    folders = [PLAIN / name for name in ("checkpoints", "snapshots", "tensorboard", _NEWEST)]
    return {
        "config.json": _kind(_config, [run / "config.json" for run in both], change_json),
        "status.json": _kind(_status, [PLAIN / "status.json"], change_json),
        "work.json": _kind(_status, [LEARNED / "work.json"], change_json),
        "references.json": _kind(_look, [LEARNED / "references.json"], change_json),
        "metrics.jsonl, drawn": _kind(_look, [run / "metrics.jsonl" for run in both], change_json),
        "metrics.jsonl, resumed": _kind(_resume, [PLAIN / "metrics.jsonl"], change_json),
        "lock": _kind(_lock, [PLAIN / "lock"]),
        "folders of a run": Kind(read=_resume, files=tuple(folders), mutations=(replace_kind,)),
        "checkpoint facts": _kind(_resume, facts, change_json),
        "checkpoint tensors": _kind(
            _resume, [run / _NEWEST / "state.safetensors" for run in both], *fitting
        ),
        "snapshot": _kind(_policy, list(newest.values()), *tensors),
        "reward.json": _kind(_reward, [LEARNED / "reward/reward.json"], change_json),
        "reward tensors": _kind(_reward, [LEARNED / "reward/reward.safetensors"], *tensors),
        "fit": _kind(_refit, [FITTED / "config.json", FITTED / "metrics.jsonl"], change_json),
        "fit, checkpoint facts": _kind(
            _refit, sorted(FITTED.glob("checkpoints/step-*/facts.json")), change_json
        ),
        "fit, checkpoint tensors": _kind(
            _refit, sorted(FITTED.glob("checkpoints/step-*/state.safetensors")), *fitting
        ),
        "card.json": _kind(_card, [FRAMES / "card.json"], change_json),
        **_minari(sets),
        **_others(),
    }


def _minari(sets: dict[Path, Path]) -> dict[str, Kind]:
    found = {
        f"HDF5, {name}": _kind(
            _dataset, [folder / "main_data.hdf5"], change_hdf5, change_hdf5, of="minari"
        )
        for name, folder in zip(("frames", "states", "JPEG"), sets.values(), strict=True)
    }
    files = [folder / "metadata.json" for folder in sets.values()]
    return found | {"metadata.json": _kind(_dataset, files, change_json, of="minari")}


def _others() -> dict[str, Kind]:
    """Kinds of files of the formats of others, and of sketches."""
    tables = [*FILMS.rglob("*/chunk-*/*.parquet"), *PICTURES.rglob("*/chunk-*/*.parquet")]
    infos = [name / "meta/info.json" for name in (FILMS, PICTURES)]
    return {
        "npy": _kind(read_format, [ARRAYS / "a.npy"], change_array, of="arrays"),
        "npz": _kind(read_format, [ARRAYS / "b.npz"], change_array, of="arrays"),
        "images": _kind(read_format, sorted(IMAGES.glob("one/*")), of="images"),
        "videos": _kind(read_format, sorted(VIDEOS.iterdir()), of="video"),
        "sketches": _kind(
            read_format, sorted(SKETCHES.rglob("*.json")), change_json, of="sketches"
        ),
        # The user names this file itself, which may be a link.
        "robomimic": Kind(
            read=read_format,
            files=(ROBOMIMIC / "demos.hdf5",),
            mutations=(change_hdf5, change_hdf5, *(m for m in ANY if m is not replace_kind)),
            format="robomimic",
        ),
        "LeRobot, info.json": _kind(read_format, infos, change_json, of="lerobot"),
        "LeRobot, parquet": _kind(read_format, sorted(tables), change_parquet, of="lerobot"),
        "LeRobot, videos": _kind(read_format, sorted(FILMS.rglob("*.mp4"))[:1], of="lerobot"),
    }


def damage(kind: Kind, number: int, outside: Path, chance: random.Random) -> tuple[Path, str]:
    """Damage one of a kind's files; returns its path and what was done."""
    file = kind.files[chance.randrange(len(kind.files))]
    mutation = kind.mutations[number % len(kind.mutations)]
    assert os.path.lexists(file), f"{file} is part of the material"
    return file, mutation(file, outside, chance)
