# As in mujoco itself.
from typing import Any

def __getattr__(name: str) -> Any: ...
