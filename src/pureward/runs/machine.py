# SPDX-License-Identifier: Apache-2.0
"""What a run was made with, for those who read its numbers later."""

import platform
from importlib.metadata import PackageNotFoundError, version

import torch

_PACKAGES = ("pureward", "torch", "mujoco", "mujoco-warp")


def made_with(device: torch.device) -> dict[str, str]:
    """The processor and the versions of what decides about a run's numbers."""
    return {"machine": machine_name(device)} | {name: _version(name) for name in _PACKAGES}


def machine_name(device: torch.device) -> str:
    """The GPU, or the kind of processor."""
    on_cuda = device.type == "cuda"
    return torch.cuda.get_device_name(device) if on_cuda else f"CPU, {platform.machine()}"


def _version(package: str) -> str:
    if package == "torch":
        return torch.__version__  # with the build's name, +cpu or +cu130
    try:
        return version(package)
    except PackageNotFoundError:
        return "from source"
