# SPDX-License-Identifier: Apache-2.0
"""Where a verdict draws its lines."""

LATE = 0.25
"""Share of a run, its end, that is averaged: long enough to outlast one swing of the game."""
SATURATED = 0.9
"""Share of rewards at the ceiling above which hardly two states differ in reward."""
MISMATCH = 0.15
"""How far apart D of the trained frames may be between training's random views and scoring; of r_φ,
of rewards up to 1, or as a share of larger ones."""
FLAT = 0.05
"""Distance of mean D between demonstrations and failures below which D tells nothing apart."""
NOTHING = 0.005
"""Mean D of demonstrations below which D calls nothing a success: a quarter of the lowest floor of
η in the presets."""
MOST, FEW = 0.8, 0.05
"""Shares of frames that count as nearly all and as next to none."""
DEAD = 0.1
"""Mean imitation reward that counts as none: D is then below 0.1, of a usual ceiling of 1 to 3."""
DISTRACTED = 0.3
"""How far mean D of the agent's own successes may lie below that of held-out demonstrations, which
show the way to success besides; and less than half of it."""
OVERFIT = 0.2
"""How far P(success) of held-out demonstrations may lie below that of trained ones: two whole
episodes of ten, where chance in the choice of episodes moves single frames."""
FORGOT = 0.3
"""P(success) of failures, at its highest after the best policy, that counts as forgetting them."""
GOOD, POOR = 0.8, 0.5
"""Shares of the way from failures' return to the expert's: as good as done, and not half done."""
PARTED = 1 - GOOD
"""Episodic reward error, as a share of the expert's return, beyond which prediction and truth
have parted: it can pass a policy off as good that is not."""
PARTED_FROM_ITSELF = 0.5
"""The same as a share of the prediction, where no expert is known: half of it is not there."""
