# SPDX-License-Identifier: Apache-2.0
"""Learned rewards on disk: weights as safetensors, settings as JSON; nothing is executed.

A folder holds `reward.json` and `reward.safetensors`; a run directory holds that folder as
`reward/`. Names and shapes are checked before a weight is read.
"""

import json
import os
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from pureward.errors import InputError, warn
from pureward.files import (
    open_regular,
    open_tensors,
    read_file,
    read_object,
    shapes_in,
    whole_file,
    write_json,
    write_tensors,
)
from pureward.rewards.arithmetic import Arithmetic, usable_device
from pureward.rewards.learned import LearnedReward, RewardSpec
from pureward.rewards.network import NETWORKS, seeded_network
from pureward.rewards.view import View
from pureward.settings import as_path, dataclass_from_json

FORMAT = "pureward-reward"
VERSION = 2
CONFIG_FILE = "reward.json"
WEIGHTS_FILE = "reward.safetensors"
MAX_CONFIG_BYTES = 65_536


def save_reward(reward: LearnedReward, directory: str | os.PathLike[str]) -> None:
    """Write a reward to a folder; existing files are replaced atomically, each on its own.

    Args:
        reward: its networks are written as float32.
        directory: the folder; it is made if it does not exist.
    """
    folder = as_path("directory", directory)
    if folder.is_file():
        raise InputError(f"a reward is saved as a folder, and {folder} is a file; choose another")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the folder {folder} of a reward cannot be made ({error.strerror}); choose another"
        ) from error
    networks = [] if reward.discriminator is None else [reward.discriminator]
    parts = dict(zip(_part_names(reward.spec), networks + reward.members, strict=True))
    weights = nn.ModuleDict(parts).state_dict()
    config = {"format": FORMAT, "version": VERSION} | asdict(reward.spec)
    with whole_file(folder / WEIGHTS_FILE) as partial:
        write_tensors(partial, {name: tensor.float() for name, tensor in weights.items()})
    write_json(folder / CONFIG_FILE, config)


def load_reward(
    directory: str | os.PathLike[str],
    *,
    device: torch.device | str = "cpu",
    batch_size: int | None = None,
    arithmetic: Arithmetic = "auto",
) -> LearnedReward:
    """Return a saved reward as a function of uint8 frames.

    Args:
        directory: the folder `save_reward` wrote, or a run directory that holds it.
        device: where to compute; frames are moved there batch by batch.
        batch_size: frames per forward pass; None for one that suits the device.
        arithmetic: "auto" for the fastest that the device supports.

    Returns:
        A function from frames (batch, channels, height, width) uint8, numpy or torch, also with
        channels last, to rewards (batch,) float32.
    """
    if not isinstance(directory, str | os.PathLike):
        raise InputError(
            f"a saved reward is named by its folder, got {directory!r}; "
            "pass a run directory or the folder that save_reward wrote"
        )
    place = usable_device(device)
    folder = _reward_folder(Path(directory))
    _warn_of_unfinished(folder)
    spec = _read_spec(folder / CONFIG_FILE)
    weights = _read_weights(folder / WEIGHTS_FILE, spec)
    # Seeded, so that the caller's random state stays.
    networks = {part: seeded_network(spec.network, 0, place) for part in _part_names(spec)}
    nn.ModuleDict(networks).load_state_dict(weights)
    return LearnedReward(
        spec,
        discriminator=networks.pop("discriminator", None),
        members=list(networks.values()),
        batch_size=batch_size,
        arithmetic=arithmetic,
    )


def _part_names(spec: RewardSpec) -> list[str]:
    first = ["discriminator"] if spec.has_discriminator else []
    return first + [f"member{i}" for i in range(spec.members)]


def _reward_folder(directory: Path) -> Path:
    inside = directory / "reward"
    if (directory / CONFIG_FILE).is_file():
        return directory
    if (inside / CONFIG_FILE).is_file() and not inside.is_symlink():
        return inside
    raise InputError(
        f"a saved reward is a folder with {CONFIG_FILE}, found none in {directory}; "
        "pass a run directory or the folder that save_reward wrote"
    )


def _warn_of_unfinished(folder: Path) -> None:
    """Warn if the reward is of a fit that was stopped or killed, or still runs."""
    status = read_object(folder.parent / "status.json") if folder.name == "reward" else {}
    made, asked = status.get("updates"), status.get("updates_asked")
    if type(made) is int and type(asked) is int and made < asked:
        warn(
            f"{folder.parent} holds a fit that stopped after {made:,} of {asked:,} updates; run "
            "the same fit again to finish it"
        )


def _read_spec(path: Path) -> RewardSpec:
    """Read the JSON; only the keys and types of this format are accepted."""
    text = read_file(path, MAX_CONFIG_BYTES)
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must be JSON, got {error}; save it again") from None
    if not isinstance(config, dict) or config.pop("format", None) != FORMAT:
        raise InputError(f"{path} must have format {FORMAT!r}; it is not a saved reward")
    version = config.pop("version", None)
    if version == 1:
        _update_version_1(path, config)
    elif version != VERSION:
        raise InputError(
            f"{path} has format version {version!r}, this pureward reads {VERSION}; "
            "use the version of pureward that wrote it"
        )
    # The first of this version had no absorbing state and did not say what the channels are.
    config = {"absorbing": False, "stack": 0, "images": []} | config
    try:
        example = RewardSpec(reward="imitation")
        return dataclass_from_json(example, config, remedy="save it again", complete=True)
    except InputError as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _update_version_1(path: Path, config: dict[str, Any]) -> None:
    """Convert the JSON of version 1, which trained on crops of 0.8 and scored whole frames."""
    warnings.warn(
        f"{path} was saved by pureward 0.1, which scored frames at another scale than it trained "
        "on; its rewards are the same as then, train it again",
        stacklevel=4,
    )
    if isinstance(config.get("network"), dict):
        config["network"] |= {"kind": "residual", "view": asdict(View.off())}
    if config.pop("level", 0.0) != 0.0 or config.pop("gate", "hard") != "hard":
        raise InputError(
            f"{path} has a soft gate or a moving level of D, which only pureward 0.1 supports; "
            "load it there or train it again"
        )


def _read_weights(path: Path, spec: RewardSpec) -> dict[str, Tensor]:
    """Read the weights after their names and shapes have been checked."""
    if not path.is_file():
        raise InputError(f"{path} is missing; copy the whole folder of the saved reward")
    with open(path, "rb", opener=open_regular) as file:
        start = file.read(4)
    if start[:1] == b"\x80" or start == b"PK\x03\x04":
        raise InputError(
            f"{path} must be safetensors, but is a pickle or zip archive; pureward never "
            "unpickles, save the weights with save_reward"
        )
    with torch.device("meta"):  # shapes without memory, however large the file claims to be
        state = NETWORKS[spec.network.kind](spec.network).state_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    expected = {f"{p}.{k}": shape for p in _part_names(spec) for k, shape in shapes.items()}
    try:
        with open_tensors(path) as file:
            found = shapes_in(file)
            for key in sorted(expected.keys() | found.keys()):
                if found.get(key) != expected.get(key):
                    raise InputError(
                        f"{path} must match {CONFIG_FILE}: {key} should have shape "
                        f"{expected.get(key)}, has {found.get(key)}; keep the two files of one "
                        "save together"
                    )
            weights = {key: file.get_tensor(key) for key in expected}
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{path} must be a complete safetensors file, but is cut short or damaged ({error}); "
            "copy or save it again"
        ) from None
    for key, tensor in weights.items():
        if tensor.dtype != torch.float32 or not tensor.isfinite().all():
            raise InputError(f"{path} must hold finite float32 weights, {key} does not; retrain it")
    return weights
