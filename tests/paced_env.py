"""A Gymnasium environment of two paces: the first process to make it takes 1 s a step, others 1 ms.

`PACED` names a folder in which it leaves a file. The state is 1 in the slow process, else 0.
"""

import os
import time
from pathlib import Path

import numpy as np

from point_env import PointEnv


class Paced(PointEnv):
    """Episodes of three steps."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.slow = False
        if "PACED" in os.environ and os.getpid() != int(os.environ["PACED_LEARNER"]):
            try:
                Path(os.environ["PACED"], "slow").touch(exist_ok=False)
                self.slow = True
            except FileExistsError:
                pass

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.float32([self.slow]), {}

    def step(self, action):
        time.sleep(1.0 if self.slow else 0.001)
        self.steps += 1
        return np.float32([self.slow]), 0.0, False, self.steps >= 3, {}
