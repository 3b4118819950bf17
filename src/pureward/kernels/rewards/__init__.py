# SPDX-License-Identifier: Apache-2.0
"""Triton kernels for CUDA: the same arithmetic as the modules beside them, in fewer passes.

Nothing here is imported unless frames lie on a CUDA device and Triton is installed.
"""
