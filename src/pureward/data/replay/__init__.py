# SPDX-License-Identifier: Apache-2.0
"""The replay: the agent's experience, sampled as n-step windows."""
