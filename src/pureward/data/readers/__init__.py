# SPDX-License-Identifier: Apache-2.0
"""Readers of datasets, one module a format; each registers itself in `READERS`."""

from pureward.data.dataset import READERS
from pureward.data.readers import minari

__all__ = ["READERS", "minari"]
