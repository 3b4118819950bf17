# SPDX-License-Identifier: Apache-2.0
"""Runs in parallel: jobs, and executors that start them."""

from pureward.distributed import processes, ray_tasks
from pureward.distributed.jobs import EXECUTORS

__all__ = ["EXECUTORS", "processes", "ray_tasks"]
