# SPDX-License-Identifier: Apache-2.0
"""Agents that learn a policy from rewarded steps."""

from pureward.agents.agent import AGENTS, Agent, AgentConfig, AgentKind, Batch
from pureward.agents.d4pg.agent import D4PG
from pureward.agents.d4pg.config import D4PGConfig
from pureward.agents.d4pg.plain import GreedyPolicy

AGENTS.register("d4pg")(AgentKind(config=D4PGConfig, make=D4PG, policy=GreedyPolicy))

__all__ = ["AGENTS", "Agent", "AgentConfig", "AgentKind", "Batch", "D4PGConfig"]
