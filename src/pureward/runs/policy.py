# SPDX-License-Identifier: Apache-2.0
"""Policies on disk: small snapshots from the whole course of a run, and reading them back."""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from pureward.agents import AGENTS, Agent
from pureward.errors import InputError
from pureward.files import open_tensors, shapes_in, whole_file, write_tensors
from pureward.runs.config import RunConfig
from pureward.runs.config_file import read_config
from pureward.runs.directory import RunDirectory, kept_steps, step_name, step_of
from pureward.types import Policy

# Numbers in a state or an action; more are a damaged file's.
_LARGEST_SIZE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class SavedPolicy:
    """A greedy policy read from a run."""

    config: RunConfig
    env_steps: int
    act: Policy
    action_size: int


def write_snapshot(folder: Path, env_steps: int, agent: Agent) -> None:
    """Keep the policy as it is now."""
    sizes = {"state_size": str(agent.state_size), "action_size": str(agent.action_size)}
    with whole_file(folder / f"{step_name(env_steps)}.safetensors") as partial:
        write_tensors(partial, agent.policy_tensors(), sizes)


def snapshots(run: Path) -> list[Path]:
    """The policies a run has kept, oldest first."""
    return kept_steps(RunDirectory(run).snapshots, ".safetensors")


def load_policy(run: Path, snapshot: Path | None = None, device: str = "cpu") -> SavedPolicy:
    """The policy of a run: a snapshot of it, by default the last."""
    directory = RunDirectory(run)
    config = read_config(directory)
    kept = snapshots(run)
    if snapshot is None and not kept:
        raise InputError(f"{run} has kept no policy yet; let it run for a while")
    path = snapshot or kept[-1]
    env_steps = step_of(path)
    if env_steps is None:
        raise InputError(
            f"a policy is called step-N.safetensors after its env steps, got {path.name}; "
            f"choose one of {run}/snapshots"
        )
    try:
        with open_tensors(path) as file:
            sizes = [int(file.metadata()[name]) for name in ("state_size", "action_size")]
            _check_shapes(path, shapes_in(file), config, sizes)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except InputError:
        raise
    except (SafetensorError, OSError, TypeError, KeyError, ValueError) as error:
        raise InputError(
            f"policy {path} cannot be read ({error}); choose another of {run}/snapshots"
        ) from error
    network = AGENTS[config.algorithm].policy(config.agent, *sizes)
    network.load_state_dict(tensors)
    act = _on_its_states(network.to(device), sizes[0], path)
    return SavedPolicy(config=config, env_steps=env_steps, act=act, action_size=sizes[1])


def _check_shapes(
    path: Path, found: dict[str, tuple[int, ...]], config: RunConfig, sizes: list[int]
) -> None:
    """Refuse a file whose tensors are not those of its settings, before any memory is claimed."""
    if not all(1 <= size <= _LARGEST_SIZE for size in sizes):
        raise InputError(
            f"policy {path} must have sizes from 1 to {_LARGEST_SIZE:,}, got {sizes}; "
            f"choose another of {path.parent}"
        )
    with torch.device("meta"):  # shapes without memory
        tensors = AGENTS[config.algorithm].policy(config.agent, *sizes).state_dict()
    expected = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted(expected.keys() | found.keys()):
        if found.get(name) != expected.get(name):
            raise InputError(
                f"policy {path} does not fit the run's agent settings ({name} should have shape "
                f"{expected.get(name)}, has {found.get(name)}); use the config.json it was "
                "trained with"
            )


def _on_its_states(network: torch.nn.Module, state_size: int, path: Path) -> Policy:
    """The greedy actions, in a world whose states are those that were learned on."""

    @torch.no_grad()
    def act(state: Tensor) -> Tensor:
        if state.shape[-1] != state_size:
            raise InputError(
                f"policy {path} acts on states of {state_size} numbers, got "
                f"{state.shape[-1]}; it was trained on another task, choose that one"
            )
        return network(state)

    return act
