# SPDX-License-Identifier: Apache-2.0
"""D4PG; it takes rewards from batches and does not know their source."""
