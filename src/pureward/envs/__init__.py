# SPDX-License-Identifier: Apache-2.0
"""Batches of environments: the protocol, the simulated tasks and their Gymnasium adapters."""

from pureward.envs.batch import ENVIRONMENTS, BatchEnv
from pureward.envs.making import make

__all__ = ["ENVIRONMENTS", "BatchEnv", "make"]
