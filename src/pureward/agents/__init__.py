# SPDX-License-Identifier: Apache-2.0
"""Agents that learn a policy from rewarded steps."""
