# SPDX-License-Identifier: Apache-2.0
"""Triton and C++ kernels, with checks that each agrees with plain torch."""
