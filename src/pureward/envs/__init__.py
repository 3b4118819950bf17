# SPDX-License-Identifier: Apache-2.0
"""Batches of environments: how they are made, how they step, what is done when one breaks."""

from pureward.envs.batch import ENVIRONMENTS, BatchEnv
from pureward.envs.making import find_device, make

__all__ = ["ENVIRONMENTS", "BatchEnv", "find_device", "make"]
