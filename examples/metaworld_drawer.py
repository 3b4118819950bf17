# SPDX-License-Identifier: Apache-2.0
"""A robot arm closes a drawer: Meta-World's drawer-close-v3 with `pureward.train`, from images.

    pip install 'pureward[all]' metaworld
    MUJOCO_GL=egl python examples/metaworld_drawer.py --out runs/drawer

Demonstrations come from the script that Meta-World has for this task. The policy sees Meta-World's
own observation, the reward sees the images of a camera above the table. The rows learn a reward by
`nn-pugail` and by `gail`. Other commands take the environment by name:

    PYTHONPATH=examples pureward evaluate runs/drawer/nn-pugail-0
"""

from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium
import metaworld  # noqa: F401 - registers its environments
import mujoco
import numpy as np
import torch
import tyro
from imitation_runs import Args, train_rows
from metaworld.policies import SawyerDrawerCloseV3Policy
from metaworld.sawyer_xyz_env import SawyerMocapBase
from torch import Tensor

import pureward
from pureward.data.writing import write_episodes
from pureward.files import whole_folder
from pureward.runs.collect import rollout

TASK = "metaworld_drawer:make_env"
DEFAULTS = Args(seeds=1, env_steps=10_000, demonstrations=15, out=Path("runs/drawer"))
HORIZON = 100
# Meta-World draws the place of the drawer from this seed and ignores that of `reset`.
_SEEDS = count()


def make_env(render_mode: str | None = None) -> gymnasium.Env:
    """Make one environment: 100 steps, images of 64×64 pixels from above, without shadows."""
    env = gymnasium.make(
        "Meta-World/MT1",
        env_name="drawer-close-v3",
        camera_name="topview",
        render_mode=render_mode,
        width=64,
        height=64,
        max_episode_steps=HORIZON,
        seed=next(_SEEDS),
    )
    model: Any = env.unwrapped.model  # type: ignore[attr-defined]
    # Software rendering of shadows takes ten times as long as all else.
    model.light_castshadow[:] = 0
    model.mat_reflectance[:] = 0
    model.vis.quality.shadowsize = 0
    model.vis.quality.offsamples = 0
    return env


def _reset_mocap_welds(self: Any) -> None:
    """Meta-World 3.0 writes 11 numbers to a row of `eq_data`, which has 12 in MuJoCo 3.17."""
    for i in np.flatnonzero(self.model.eq_type == int(mujoco.mjtEq.mjEQ_WELD)):
        self.model.eq_data[i, :11] = [0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 5]


SawyerMocapBase.reset_mocap_welds = _reset_mocap_welds


def script(state: Tensor) -> Tensor:
    """Return the actions of Meta-World's script, (worlds, 4), for states (worlds, 39)."""
    policy = SawyerDrawerCloseV3Policy()
    actions = [policy.get_action(row) for row in state.double().numpy()]
    return torch.as_tensor(np.array(actions), dtype=torch.float32).clamp(-1, 1)


def demonstrate(args: Args, folder: Path) -> None:
    """Write the frames of the script's episodes as a dataset."""
    splits = ["train"] * args.demonstrations + ["held-out"] * args.held_out
    with pureward.make(TASK, len(splits), "cpu", seed=7, cameras=True) as env:
        found = rollout(env, script)
    solved = sum(episode.succeeds for episode in found)
    print(f"the script solves {solved} of {len(found)} episodes")
    kept = [replace(e, split=split) for e, split in zip(found, splits, strict=True) if e.succeeds]
    with whole_folder(folder) as partial:
        write_episodes(partial, kept, task=TASK, name="script")


def main(args: Args) -> None:
    """Record what is missing, train what is missing, draw the figure and the film."""
    torch.set_num_threads(1)
    demonstrations = args.out / "demonstrations"
    if not demonstrations.exists():
        demonstrate(args, demonstrations)
    train_rows(
        TASK,
        args,
        about="Meta-World drawer-close-v3, pureward train",
        evaluations=5,
        panels={"success": "share solved", "return": "true return"},
    )


if __name__ == "__main__":
    main(tyro.cli(Args, default=DEFAULTS, description=__doc__))
