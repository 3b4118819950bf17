# SPDX-License-Identifier: Apache-2.0
"""Runs: configuration, the training loop, checkpoints, logs, evaluation."""
