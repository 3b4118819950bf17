# SPDX-License-Identifier: Apache-2.0
"""Batched physics and cameras, independent of tasks."""

from pureward.envs.sim.mujoco_cpu import CpuEngine
from pureward.envs.sim.mujoco_warp import WarpEngine

Engine = CpuEngine | WarpEngine
