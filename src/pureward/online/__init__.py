# SPDX-License-Identifier: Apache-2.0
"""A reward that keeps learning: its networks, its data and η, for `train` and for other loops."""
