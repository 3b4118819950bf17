# SPDX-License-Identifier: Apache-2.0
"""Triton and C++ kernels; those in Triton are used only if they agree with plain torch."""
