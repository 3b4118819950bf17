# SPDX-License-Identifier: Apache-2.0
"""Policy snapshots: small files that a run writes at intervals."""

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
from pureward.settings import as_path
from pureward.types import Policy

_LARGEST_SIZE = 1_000_000  # of a state or an action


@dataclass(frozen=True, kw_only=True)
class SavedPolicy:
    """A greedy policy of a run."""

    config: RunConfig
    env_steps: int
    """Of the run when it was saved."""
    act: Policy
    """A function from states (worlds, state size) to actions (worlds, action size) in [−1, 1]."""
    action_size: int


def write_snapshot(folder: Path, env_steps: int, agent: Agent) -> None:
    """Write the policy of an agent to FOLDER/step-N.safetensors."""
    sizes = {"state_size": str(agent.state_size), "action_size": str(agent.action_size)}
    with whole_file(folder / f"{step_name(env_steps)}.safetensors") as partial:
        write_tensors(partial, agent.policy_tensors(), sizes)


def snapshots(run: Path) -> list[Path]:
    """Return the policy snapshots of a run, oldest first."""
    return kept_steps(RunDirectory(run).snapshots, ".safetensors")


def load_policy(
    run: str | Path, snapshot: str | Path | None = None, device: str = "cpu"
) -> SavedPolicy:
    """Load a policy of a run.

    Args:
        run: its directory.
        snapshot: one of `snapshots(run)`; by default the last.
        device: that the policy acts on.

    Raises:
        InputError: if there is none, or it does not match the run's settings.
    """
    run = as_path("run", run)
    config = read_config(RunDirectory(run))
    path = as_path("snapshot", snapshot) if snapshot else next(reversed(snapshots(run)), None)
    if path is None:
        raise InputError(f"{run} has no policy snapshot yet; let it run longer")
    env_steps = step_of(path)
    if env_steps is None:
        raise InputError(
            f"a policy must be called step-N.safetensors, N its env steps, got {path.name}; "
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
    act = _greedy(network.to(device), sizes[0], path, run)
    return SavedPolicy(config=config, env_steps=env_steps, act=act, action_size=sizes[1])


def random_policy(size: int, device: torch.device | str, seed: int) -> Policy:
    """Return a policy that samples uniform actions (worlds, size) in [−1, 1]."""
    rng = torch.Generator(device).manual_seed(seed)
    return lambda state: 2.0 * torch.rand(len(state), size, generator=rng, device=device) - 1.0


def _check_shapes(
    path: Path, found: dict[str, tuple[int, ...]], config: RunConfig, sizes: list[int]
) -> None:
    """Refuse tensors that do not match the settings, before any memory is allocated."""
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


def _greedy(network: torch.nn.Module, state_size: int, path: Path, run: Path) -> Policy:
    @torch.no_grad()
    def act(state: Tensor) -> Tensor:
        if state.shape[-1] != state_size:
            raise InputError(
                f"policy {path} acts on states of {state_size} numbers, got "
                f"{state.shape[-1]}; choose the task and the state it was trained on, or show the "
                f"run itself: pureward show {run}"
            )
        return network(state)

    return act
