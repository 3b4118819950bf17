# SPDX-License-Identifier: Apache-2.0
"""Fits a reward to data alone, in a folder that a killed fit continues from."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from pureward.data.arrays import check_list
from pureward.data.dataset import Dataset, check_apart, image_names, is_same, known_failures
from pureward.data.episodes import FAILURE, HELD_OUT, check_rated
from pureward.data.fingerprint import fingerprint
from pureward.data.frames import FrameBank
from pureward.data.guard import check_outside
from pureward.errors import InputError, check_seed, counted, warn
from pureward.files import check_writable, write_json
from pureward.offline.fitter import FIT, UPDATES, Fitter
from pureward.offline.folder import FitFolder, Fitted
from pureward.offline.sources import check_alike, describe, failed, load
from pureward.online.online_reward import DEFAULT_PRIOR, default_prior
from pureward.online.supervision import Supervision, warn_of_data
from pureward.rewards.config import RewardConfig, check_reward_config
from pureward.rewards.methods import METHODS
from pureward.rewards.priors import parse_prior
from pureward.rewards.priors.estimated import FEWEST_EPISODES
from pureward.rewards.risks import RISKS
from pureward.runs import checkpoint
from pureward.runs.config_file import OFFLINE, read_settings
from pureward.runs.directory import RunDirectory
from pureward.settings import as_path, checked
from pureward.training.stopping import StopSignal
from pureward.types import find_device

if TYPE_CHECKING:
    from pureward.data.dataset import Source


def fit(
    unlabeled: "Source",
    *,
    demonstrations: "Source | None" = None,
    annotations: "Source | None" = None,
    failures: "Source | None" = None,
    out: str | Path,
    method: str = "",
    prior: str | float | None = None,
    updates: int = UPDATES,
    images: str | Sequence[str] = (),
    stack: int = 1,
    held_out: float = 0.2,
    config: RewardConfig = FIT,
    device: str = "auto",
    seed: int = 0,
) -> Fitted:
    """Fit a reward to demonstrations and logs, without an environment.

    The positives of D are the demonstrations, or the annotated episodes if there are none; the
    logs are its unlabeled data. With annotations, a reward model is fitted to them and gated by D.

    Args:
        unlabeled: logs: anything that `read_episodes` takes; their rewards are not used, and their
            successes, if they are known, only for the verdict.
        demonstrations: successful episodes, the same way.
        annotations: episodes with rewards, the same way.
        failures: known failures, for the risk `nnpnu`.
        out: folder for the reward; the same call continues a fit that was killed there.
        method: a name in `METHODS`; "" for nn-pugail, or nn-purl with annotations.
        prior: η, or how it is found; None estimates it for imitation ("bbe:0.002:0.8") and
            is 0.7 for gated rewards.
        updates: of D, on a minibatch each.
        images: names of the images to stack as channels, if the sources have several.
        stack: consecutive images in a frame, as channels.
        held_out: share of the positives held out, if they have no splits.
        config: settings of the reward; the default takes minutes on a CPU.
        device: "auto" (CUDA if available), "cpu" or "cuda".
        seed: of weights and sampling.
    """
    sources = {"demonstrations": demonstrations, "annotations": annotations, "failures": failures}
    given = {name: source for name, source in sources.items() if source is not None}
    given["unlabeled"] = unlabeled
    images, out = image_names(images), as_path("out", out)
    updates, stack = checked("updates", updates, UPDATES), checked("stack", stack, 1)
    held_out, method = checked("held_out", held_out, 0.2), checked("method", method, "")
    method = method or ("nn-pugail" if annotations is None else "nn-purl")
    _check(method, given, updates, prior)
    for name in ("demonstrations", "annotations"):
        check_list(name, given.get(name))
    for one in given.values():
        check_outside(out, describe(one))
    check_writable(out)
    seed = check_seed(seed)
    prior = prior if prior is None or isinstance(prior, str) else float(prior)
    check_reward_config(config)
    row, prior = METHODS[method], default_prior(method) if prior is None else prior
    if failures is not None and row.takes_prior and not config.risk:
        own = RISKS[row.risk].takes_failures
        config = config if own else replace(config, risk="nnpnu")
    settings = {
        "task": OFFLINE,
        "method": method,
        **{name: describe(source) for name, source in given.items()},
        "data": {name: fingerprint(source, images) for name, source in given.items()},
        "prior": DEFAULT_PRIOR if prior is None else prior,  # as folders of older versions have it
        "images": list(images),
        "stack": stack,
        "held_out": held_out,
        "seed": seed,
        "reward": json.loads(json.dumps(asdict(config))),
    }
    place, directory = find_device(device), RunDirectory(out)
    _check_settings(directory, settings)
    read = {"images": images, "held_out": held_out, "device": place}
    loaded = {name: load(name, source, **read) for name, source in given.items()}
    if failures is not None:
        one = loaded["failures"]
        check_apart(one, loaded.get("demonstrations") or loaded["annotations"])
        loaded["failures"] = replace(one, episodes=known_failures(one))
    fitter = _fitter(loaded, method, prior, stack, config, place, seed)
    with directory, StopSignal() as stop:
        _check_settings(directory, settings)  # another process may have been here
        directory.checkpoints.mkdir(exist_ok=True)
        begun = directory.config.exists()
        saved = checkpoint.read_newest(directory.checkpoints) if begun else None
        write_json(directory.config, settings)
        total = updates if fitter.has_discriminator else 0
        return FitFolder(directory, fitter, total, stop, saved).run()


def _check(method: str, given: dict[str, Any], updates: int, prior: Any) -> None:
    row = METHODS[method]
    if row.reward == "truth":
        raise InputError("method must be a learned one, got 'truth'; try nn-pugail")
    if not {"demonstrations", "annotations"} & given.keys():
        raise InputError("a fit needs demonstrations or annotations, got neither; give one")
    if row.needs_annotations != ("annotations" in given):
        verb = "needs" if row.needs_annotations else "takes no"
        fits = "nn-pugail" if row.needs_annotations else "nn-purl"
        raise InputError(f"{method} {verb} annotations; change them, or choose --method {fits}")
    if row.reward == "regression" and "demonstrations" in given:
        raise InputError(f"{method} learns from annotations alone; leave demonstrations out")
    if updates < 1:
        raise InputError(f"updates must be at least 1, got {updates}; try {UPDATES}")
    if prior is not None:
        parse_prior(prior)


def _fitter(
    loaded: dict[str, Dataset],
    method: str,
    prior: str | float | None,
    stack: int,
    config: RewardConfig,
    device: torch.device,
    seed: int,
) -> Fitter:
    for name, episodes in loaded.items():
        steps = sum(map(len, episodes))
        print(f"{name}: {counted(len(episodes), 'episode')}, {counted(steps, 'frame')}")
    check_alike(loaded)
    kind = "demonstrations" if "demonstrations" in loaded else "annotations"
    positives, logs = loaded[kind], loaded["unlabeled"]
    annotated = None
    if "annotations" in loaded:
        check_rated(loaded["annotations"], "annotations")
        if kind == "demonstrations":
            rated = [one for one in loaded["annotations"] if one.split != FAILURE]
            annotated = FrameBank(rated, stack=stack, device=device)
    row = METHODS[method]
    if row.takes_prior and prior is not None:
        _check_enough(kind, loaded, prior)
    images = positives.images or logs.images
    data = Supervision.of(positives, stack=stack, device=device, images=images)
    rated = len((annotated or data.train).episodes.unique())
    if row.has_reward_model and config.model.held_out and rated < 2:
        raise InputError(
            f"r_φ needs at least 2 annotated episodes that are not held out, got {rated} of "
            f"{len(loaded['annotations'])}; annotate more or lower --held-out"
        )
    same = positives.path and logs.path and is_same(positives.path, logs.path)
    if row.has_discriminator and same:
        warn(
            f"{kind} and unlabeled are both {logs.path}, so D sees the same frames as positives "
            "and as unlabeled and learns nothing; give other logs"
        )
    if kind == "demonstrations":
        warn_of_data(kind, positives, None)
    if "annotations" in loaded:
        warn_of_data("annotations", loaded["annotations"], (annotated or data.train).rewards)
    known = None
    if "failures" in loaded:
        known = FrameBank(loaded["failures"], stack=stack, device=device)
    return Fitter(
        data,
        FrameBank(logs, stack=stack, device=device),
        method=method,
        prior=prior,
        failures=known,
        failed_logs=torch.tensor(failed(logs)),
        annotated=annotated,
        config=config,
        seed=seed,
    )


def _check_enough(kind: str, loaded: dict[str, Dataset], prior: str | float) -> None:
    """Refuse an estimate of η from too few episodes."""
    if "scores" not in parse_prior(prior).wants:
        return
    held, logs = len(loaded[kind].split(HELD_OUT)), len(loaded["unlabeled"])
    count = len(loaded[kind])
    more = "bring more"
    if count >= 2 * FEWEST_EPISODES:
        share = next(n / 20 for n in range(1, 20) if round(n / 20 * count) >= FEWEST_EPISODES)
        more = f"pass --held-out {share:g}"
    for name, found, remedy in (
        (f"held-out {kind}", held, more),
        ("unlabeled episodes", logs, "bring more"),
    ):
        if found < FEWEST_EPISODES:
            raise InputError(
                f"an estimate of η needs at least {FEWEST_EPISODES} {name}, got {found}; {remedy}, "
                "or give η, --prior 0.5 (in Python held_out= and prior=)"
            )


def _check_settings(directory: RunDirectory, settings: dict[str, Any]) -> None:
    """Refuse a folder that holds a fit with other settings, or a run."""
    if not directory.config.exists():
        return
    before = read_settings(directory, lambda found: found)
    known = before if isinstance(before, dict) else {}
    known.setdefault("data", settings["data"])  # the first fits did not note what their data was
    if before != settings:
        changed = [name for name in settings if known.get(name) != settings[name]]
        if changed == ["data"] and isinstance(known["data"], dict):
            now = settings["data"].items()
            changed = [f"episodes of {name}" for name, one in now if known["data"].get(name) != one]
        raise InputError(
            f"{directory.path} holds a fit or run with other settings "
            f"({', '.join(changed) or 'more of them'}); choose another folder, or delete it"
        )
