# SPDX-License-Identifier: Apache-2.0
"""Triton kernels for CUDA: the update of `d4pg.py` in fourteen launches instead of some seventy.

At these sizes an update is bound by how many kernels follow each other, not by their work. So
online and target networks share each launch, what surrounds a matrix product is done on its tile,
and every weight's gradient is found in one launch. Products are TF32, sums float32.

Nothing here is imported unless the agent lives on a CUDA device and Triton is installed.
"""
