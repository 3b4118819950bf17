# SPDX-License-Identifier: Apache-2.0
"""What became of a run's reward, in words."""

from pureward.diagnostics.verdict.judge import Facts, Verdict, judge, late_numbers
from pureward.diagnostics.verdict.limits import FEW, GOOD, LATE, MOST, OVERFIT, PARTED

__all__ = [
    "FEW",
    "GOOD",
    "LATE",
    "MOST",
    "OVERFIT",
    "PARTED",
    "Facts",
    "Verdict",
    "judge",
    "late_numbers",
]
