# SPDX-License-Identifier: Apache-2.0
"""Learned rewards on disk: weights as safetensors, the rest as JSON, nothing that can execute.

A folder holds `reward.json` and `reward.safetensors`; a run directory holds that folder as
`reward/`. Everything is checked against the declared shapes before a weight is read.
"""

import json
import os
import warnings
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from pureward.errors import InputError
from pureward.files import (
    open_regular,
    open_tensors,
    read_file,
    shapes_in,
    whole_file,
    write_json,
    write_tensors,
)
from pureward.rewards.arithmetic import Arithmetic, usable_device
from pureward.rewards.learned import LearnedReward, RewardSpec
from pureward.rewards.network import FrameNetwork, NetworkConfig, build_network
from pureward.rewards.view import View

FORMAT = "pureward-reward"
VERSION = 2
CONFIG_FILE = "reward.json"
WEIGHTS_FILE = "reward.safetensors"
MAX_CONFIG_BYTES = 65_536


def save_reward(reward: LearnedReward, directory: str | os.PathLike[str]) -> None:
    """Write a reward, over the one that is there; each of its two files is replaced whole."""
    folder = Path(directory)
    weights = {
        f"{part}.{name}": tensor.detach().to("cpu", torch.float32).contiguous().clone()
        for part, network in _parts(reward).items()
        for name, tensor in network.state_dict().items()
    }
    config = {"format": FORMAT, "version": VERSION} | asdict(reward.spec)
    with whole_file(folder / WEIGHTS_FILE) as partial:
        write_tensors(partial, weights)
    write_json(folder / CONFIG_FILE, config)


def load_reward(
    directory: str | os.PathLike[str],
    *,
    device: torch.device | str = "cpu",
    batch_size: int = 1024,
    arithmetic: Arithmetic = "auto",
) -> LearnedReward:
    """Return a saved reward as a function of uint8 frames.

    Args:
        directory: the folder `save_reward` wrote, or a run directory that holds it.
        device: where to compute; frames are moved there batch by batch.
        batch_size: frames a pass.
        arithmetic: "auto" for the fastest the device has.
    """
    if not isinstance(directory, str | os.PathLike):
        raise InputError(
            f"a saved reward is named by its folder, got {directory!r}; "
            "pass a run directory or the folder that save_reward wrote"
        )
    place = usable_device(device)
    folder = _reward_folder(Path(directory))
    spec = _read_spec(folder / CONFIG_FILE)
    weights = _read_weights(folder / WEIGHTS_FILE, _expected_shapes(spec))
    networks = {}
    for part in _part_names(spec):
        network = build_network(spec.network)
        prefix = f"{part}."
        network.load_state_dict(
            {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}
        )
        networks[part] = network.to(place, memory_format=torch.channels_last)  # type: ignore
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


def _parts(reward: LearnedReward) -> dict[str, FrameNetwork]:
    first = [] if reward.discriminator is None else [reward.discriminator]
    return dict(zip(_part_names(reward.spec), first + reward.members, strict=True))


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


def _read_spec(path: Path) -> RewardSpec:
    """Read the JSON, accepting this format's keys and types and nothing else."""
    text = read_file(path, MAX_CONFIG_BYTES)
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} must be JSON, but does not parse ({error}); save it again"
        ) from None
    if not isinstance(config, dict) or config.pop("format", None) != FORMAT:
        raise InputError(f"{path} must say format {FORMAT!r}; it is not a saved reward")
    version = config.pop("version", None)
    network = config.pop("network", None)
    if version == 1 and isinstance(network, dict):
        # It learned from windows of 0.8 of a frame and was paid for whole frames.
        warnings.warn(
            f"{path} is of pureward 0.1, which paid for frames at another scale than it learned "
            "from; it is read as it paid then, train it again",
            stacklevel=3,
        )
        network["kind"] = "residual"
        network["view"] = json.loads(json.dumps(asdict(View.off())))
        if config.pop("level", 0.0) != 0.0 or config.pop("gate", "hard") != "hard":
            raise InputError(
                f"{path} pays above a level of D that moved, or by a soft gate, which only "
                "pureward 0.1 does; load it there or train it again"
            )
    elif version != VERSION:
        raise InputError(
            f"{path} has format version {version!r}, this pureward reads {VERSION}; "
            "use the version of pureward that wrote it"
        )
    if not isinstance(network, dict):
        raise InputError(f"{path} must describe its network, got {network!r}; save it again")
    view = _checked_fields(path, View, network.pop("view", None))
    network = _checked_fields(path, NetworkConfig, {**network, "view": View(**view)})
    rest = _checked_fields(path, RewardSpec, config | {"network": NetworkConfig(**network)})
    return RewardSpec(**rest)


def _checked_fields(path: Path, kind: type, values: Any) -> dict[str, Any]:
    """Return the fields of a dataclass from parsed JSON, refusing missing, odd or foreign ones."""
    names = {f.name for f in fields(kind)}
    if not isinstance(values, dict) or set(values) != names:
        found = sorted(values) if isinstance(values, dict) else type(values).__name__
        raise InputError(f"{path} must have the keys {sorted(names)}, got {found}; save it again")
    defaults = {f.name: f.default for f in fields(kind)}
    for name, value in values.items():
        if not _same_kind(value, defaults[name]):
            raise InputError(f"{path} has an unusable {name}: {value!r}; save it again")
    return dict(values)


def _same_kind(value: Any, example: Any) -> bool:
    if isinstance(value, NetworkConfig | View):
        return True
    if isinstance(example, tuple):
        listed = isinstance(value, list) and len(value) > 0
        return listed and all(_same_kind(item, example[0]) for item in value)
    if isinstance(example, float):
        return type(value) in (int, float)
    if isinstance(example, int):
        return type(value) is type(example)
    return isinstance(value, str)


def _expected_shapes(spec: RewardSpec) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):  # shapes without memory, however large the file claims to be
        shapes = {k: tuple(v.shape) for k, v in build_network(spec.network).state_dict().items()}
    return {f"{p}.{k}": shape for p in _part_names(spec) for k, shape in shapes.items()}


def _read_weights(path: Path, expected: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    if not path.is_file():
        raise InputError(f"{path} is missing; copy the whole folder of the saved reward")
    with open(path, "rb", opener=open_regular) as file:
        start = file.read(4)
    if start[:1] == b"\x80" or start == b"PK\x03\x04":
        raise InputError(
            f"{path} must be safetensors, but is a pickle or zip archive; pureward never "
            "unpickles, save the weights with save_reward"
        )
    try:
        with open_tensors(path) as file:
            _check_shapes(path, shapes_in(file), expected)
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


def _check_shapes(
    path: Path, found: dict[str, tuple[int, ...]], expected: dict[str, tuple[int, ...]]
) -> None:
    for key in sorted(expected.keys() | found.keys()):
        if found.get(key) != expected.get(key):
            raise InputError(
                f"{path} must match {CONFIG_FILE}: {key} should have shape {expected.get(key)}, "
                f"has {found.get(key)}; keep the two files of one save together"
            )
