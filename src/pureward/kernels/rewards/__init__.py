# SPDX-License-Identifier: Apache-2.0
"""Triton kernels for CUDA: the arithmetic of `pureward.rewards` in fewer passes over memory.

Nothing here is imported unless frames are on a CUDA device and Triton is installed.
"""
