# SPDX-License-Identifier: Apache-2.0
"""The small run that the stress tests kill and whose files they damage.

It takes seconds and has everything that a run can write: a discriminator, a reward model, an
estimated η, a memory, cached labels, a replay with frames, evaluations, probes and snapshots.
"""

import platform
import subprocess
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from threading import RLock
from typing import Any

import torch
from tqdm import tqdm

import pureward
from pureward.agents.d4pg.agent import D4PGConfig
from pureward.data.episodes import FAILURE, HELD_OUT, TRAIN, Episode
from pureward.data.replay.replay import ReplayConfig
from pureward.data.writing import write_episodes
from pureward.envs.tasks import TASKS
from pureward.rewards.config import RewardConfig, RewardModelConfig
from pureward.rewards.network import NetworkConfig
from pureward.rewards.priors.estimated import FEWEST_EPISODES

#: Env steps between two checkpoints.
INTERVAL = 40
WORLDS = FEWEST_EPISODES  # η is estimated once every world has begun an episode
_SPLITS = (TRAIN,) * 2 + (HELD_OUT,) * FEWEST_EPISODES + (FAILURE,)
_STEPS = 6


def prepare() -> None:
    """Load what torch loads late, use one thread, and shorten the task's episodes."""
    torch.set_num_threads(1)
    tqdm.monitor_interval = 0  # no thread of its own
    tqdm.set_lock(RLock())  # its default is shared with other processes, and leaks in a kill
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    TASKS["reach"] = replace(TASKS["reach"], horizon=8)
    assert pureward.train, "exported names are imported when they are used"


def write_data(folder: Path) -> Path:
    """Write a dataset of random frames to learn from; returns its folder."""
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator)

    episodes = [
        Episode(
            rewards=drawn(_STEPS),
            actions=drawn(_STEPS, 2),
            success=torch.arange(_STEPS) > _STEPS // 2,
            state=drawn(_STEPS + 1, 4),
            frames=(255 * drawn(_STEPS + 1, 3, 64, 64)).byte(),
            split=split,
        )
        for split in _SPLITS
    ]
    write_episodes(folder, episodes, task="reach")
    return folder


def small_run(out: Path, data: Path, **changes: Any) -> pureward.RunConfig:
    """Settings of the run."""
    config = pureward.RunConfig(
        task="reach",
        seed=2,  # whose best checkpoint is not the last
        method="nn-purl",
        annotations=str(data),
        prior="bbe",
        device="cpu",
        out=str(out),
        worlds=WORLDS,
        env_steps=2 * INTERVAL,
        keep_checkpoints=1,
        warmup_steps=20,
        updates_per_step=1,
        batch=16,
        replay=ReplayConfig(capacity=20 * WORLDS),
        agent=D4PGConfig(actor_layers=(16,), critic_layers=(16,), atoms=11),
        reward=RewardConfig(
            batch=4,
            network=NetworkConfig(stage_channels=(2, 2), stage_blocks=0),
            model=RewardModelConfig(epochs=1, batch_size=16),
            labels="cached",
            refreshed=3,
            memory=20,
        ),
        log_every=INTERVAL // 2 * 3,  # η is estimated then, which takes longest
        probe_every=INTERVAL,
        probe_frames=4,
        evaluate_every=INTERVAL,
        evaluate_episodes=1,
        checkpoint_every=INTERVAL,
        snapshot_every=INTERVAL,
    )
    return replace(config, **changes)


def made_with(command: str) -> dict[str, str]:
    """What figures were made with: command, commit, versions and machine."""
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    packages = ("pureward", "torch", "numpy", "h5py", "minari", "safetensors")
    return {
        "command": command,
        "commit": told.stdout.strip() or "unknown",
        "machine": f"{platform.machine()}, {platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }
