# SPDX-License-Identifier: Apache-2.0
"""A run on disk: its configuration, directory, checkpoints, metrics, policies and episodes."""
