# Triton compiles what it is given from its source; its annotations do not describe calls of it.
from typing import Any

def __getattr__(name: str) -> Any: ...
