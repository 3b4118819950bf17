# SPDX-License-Identifier: Apache-2.0
"""The processor and the package versions of a run."""

import platform
from importlib.metadata import PackageNotFoundError, version

import torch


def made_with(device: torch.device) -> dict[str, str]:
    """Return the processor and the versions of the packages that affect results."""
    found = {"machine": machine_name(device)}
    for name in ("pureward", "torch", "mujoco", "mujoco-warp"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "from source"
    return found | {"torch": torch.__version__}  # with the build, +cpu or +cu130


def machine_name(device: torch.device) -> str:
    """Return the name of the GPU, or the CPU architecture."""
    on_cuda = device.type == "cuda"
    return torch.cuda.get_device_name(device) if on_cuda else f"CPU, {platform.machine()}"
