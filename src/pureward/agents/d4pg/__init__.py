# SPDX-License-Identifier: Apache-2.0
"""D4PG: learns from batches with rewards on them, ignorant of where the rewards come from."""
