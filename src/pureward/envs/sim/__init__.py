# SPDX-License-Identifier: Apache-2.0
"""Batched physics and cameras; knows no task."""
