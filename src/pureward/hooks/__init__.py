# SPDX-License-Identifier: Apache-2.0
"""Learned rewards in other libraries: one module for each."""
