# SPDX-License-Identifier: Apache-2.0
"""Triton and C++ kernels, and the checks that each computes what plain torch computes."""
