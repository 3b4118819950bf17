# SPDX-License-Identifier: Apache-2.0
"""The replay buffer of the agent's steps, sampled as n-step windows."""
