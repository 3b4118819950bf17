# SPDX-License-Identifier: Apache-2.0
"""Actors: processes, here or on a Ray cluster, that step the environments of one learner."""

from pureward.distributed.actors.hosts import HOSTS
from pureward.distributed.actors.pool import Actors

__all__ = ["HOSTS", "Actors"]
