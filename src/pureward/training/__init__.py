# SPDX-License-Identifier: Apache-2.0
"""Training: presets, the loop, the learner, evaluation."""
