# SPDX-License-Identifier: Apache-2.0
"""Several runs at once: jobs, and executors that start them."""

from pureward.distributed import processes
from pureward.distributed.jobs import EXECUTORS

__all__ = ["EXECUTORS", "processes"]
