# MuJoCo's bindings are compiled and carry no types; to the type checker anything may be in them.
from typing import Any

def __getattr__(name: str) -> Any: ...
