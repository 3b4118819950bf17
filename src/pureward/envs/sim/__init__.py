# SPDX-License-Identifier: Apache-2.0
"""Batched physics and cameras, independent of tasks."""

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # importing MuJoCo Warp takes longer than importing torch
    from pureward.envs.sim.mujoco_cpu import CpuEngine
    from pureward.envs.sim.mujoco_warp import WarpEngine

Engine: TypeAlias = "CpuEngine | WarpEngine"
