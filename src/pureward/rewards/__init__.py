# SPDX-License-Identifier: Apache-2.0
"""Learned rewards: frames in, rewards out; knows no environment and no agent."""
