# SPDX-License-Identifier: Apache-2.0
"""Writers of whole datasets: our own format, and copies of others with new rewards."""
