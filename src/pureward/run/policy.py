# SPDX-License-Identifier: Apache-2.0
"""Policies on disk: small snapshots from the whole course of a run, and reading them back."""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pureward.agent.d4pg import D4PG
from pureward.errors import InputError
from pureward.files import whole_file, write_tensors
from pureward.run.config import RunConfig
from pureward.run.config_file import read_config
from pureward.run.directory import RunDirectory, kept_steps, step_name, step_of
from pureward.types import Policy


@dataclass(frozen=True, kw_only=True)
class SavedPolicy:
    """A greedy policy read from a run."""

    config: RunConfig
    env_steps: int
    act: Policy


def write_snapshot(folder: Path, env_steps: int, agent: D4PG) -> None:
    """Keep the policy as it is now."""
    tensors = {f"actor.{name}": t for name, t in agent.policy.state_dict().items()}
    if agent.normaliser is not None:
        tensors |= {f"normaliser.{name}": t for name, t in agent.normaliser.state_dict().items()}
    sizes = {"state_size": str(agent.state_size), "action_size": str(agent.action_size)}
    with whole_file(folder / f"{step_name(env_steps)}.safetensors") as partial:
        write_tensors(partial, tensors, sizes)


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
        with safe_open(path, framework="pt") as file:
            sizes = [int(file.metadata()[name]) for name in ("state_size", "action_size")]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError, KeyError, ValueError) as error:
        raise InputError(
            f"policy {path} cannot be read ({error}); choose another of {run}/snapshots"
        ) from error
    agent = D4PG(config.agent, state_size=sizes[0], action_size=sizes[1], device=device)
    _load(agent, tensors, path)
    act = _on_its_states(agent, path)
    return SavedPolicy(config=config, env_steps=env_steps, act=act)


def _on_its_states(agent: D4PG, path: Path) -> Policy:
    """The agent's actions, in a world whose states are those it has learned on."""

    def act(state: Tensor) -> Tensor:
        if state.shape[-1] != agent.state_size:
            raise InputError(
                f"policy {path} acts on states of {agent.state_size} numbers, got "
                f"{state.shape[-1]}; it was trained on another task, choose that one"
            )
        return agent.act(state)

    return act


def _load(agent: D4PG, tensors: dict[str, Tensor], path: Path) -> None:
    modules: dict[str, torch.nn.Module | None] = {
        "actor": agent.actor,
        "normaliser": agent.normaliser,
    }
    for part, module in modules.items():
        if module is None:
            continue
        own = {
            name.removeprefix(f"{part}."): t
            for name, t in tensors.items()
            if name.startswith(f"{part}.")
        }
        try:
            module.load_state_dict(own)
        except RuntimeError as error:
            raise InputError(
                f"policy {path} does not fit the run's agent settings; "
                "use the config.json it was trained with"
            ) from error
