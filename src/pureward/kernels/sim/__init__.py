# SPDX-License-Identifier: Apache-2.0
"""Warp and C++ kernels of the simulation: small models, cameras; CUDA graphs of Warp's work."""
