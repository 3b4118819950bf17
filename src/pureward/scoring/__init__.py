# SPDX-License-Identifier: Apache-2.0
"""Scores of whole datasets by a learned reward: tables, relabelled copies and films."""
