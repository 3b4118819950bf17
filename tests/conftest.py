import os

import pytest
import torch

# No test draws through OpenGL: dm_control must not look for a display when it is imported.
os.environ.setdefault("MUJOCO_GL", "disabled")


@pytest.fixture(autouse=True)
def _same_numbers_everywhere():
    torch.manual_seed(0)
