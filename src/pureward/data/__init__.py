# SPDX-License-Identifier: Apache-2.0
"""What the agent has seen and done; knows no learner."""
