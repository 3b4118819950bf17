# SPDX-License-Identifier: Apache-2.0
"""Rewards from data alone, without an environment, and checks of that data."""
