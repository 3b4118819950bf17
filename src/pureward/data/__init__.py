# SPDX-License-Identifier: Apache-2.0
"""Episodes, datasets and the replay; imports no learner."""
