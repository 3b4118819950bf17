# SPDX-License-Identifier: Apache-2.0
"""A question to the device that does not make the host wait."""

import torch
from torch import Tensor


class AsyncFlag:
    """Whether something was ever true on the device, asked without waiting for the answer."""

    def __init__(self, device: torch.device):
        """Nothing was true yet."""
        self._cuda = device.type == "cuda"
        self._ever = torch.zeros((), dtype=torch.bool, device=device)
        self._seen = torch.zeros((), dtype=torch.bool, pin_memory=self._cuda)

    def raised(self, now: Tensor) -> bool:
        """Whether it was ever true: now at once on a CPU, some steps later on CUDA."""
        if not self._cuda:
            return bool(now)
        self._ever |= now
        self._seen.copy_(self._ever, non_blocking=True)
        return bool(self._seen)
