# SPDX-License-Identifier: Apache-2.0
"""Positive-Unlabeled Reward Learning: rewards that stay alive and stay honest."""

__version__ = "0.1.0"
