"""Imports go one way: a row of the layout may import only rows above it."""

import ast
from pathlib import Path

import pureward

ROOT = Path(pureward.__file__).parent

#: The rows of the layout, lowest first; rooms of one row do not import each other.
ROWS = [
    {"errors", "gym", "interval", "progress"},
    {"types"},
    {"files", "capture", "trust"},
    {"sim"},
    {"tasks"},
    {"env"},
    {"reward", "agent", "data", "picture"},
    {"relabel"},
    {"purl", "probe", "verdict"},
    {"run"},
    {"work", "view"},
    {"demo"},
    {"paper"},
    {"cli"},
    {"__main__"},
]
HEIGHT = {room: height for height, row in enumerate(ROWS) for room in row}


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pureward."):
            rooms.add(node.module.split(".")[1])
        elif isinstance(node, ast.ImportFrom) and node.module == "pureward":
            rooms |= {alias.name for alias in node.names} & set(HEIGHT)
        elif isinstance(node, ast.Import):
            rooms |= {a.name.split(".")[1] for a in node.names if a.name.startswith("pureward.")}
    return rooms


def test_imports_go_one_way():
    wrong = []
    for path in ROOT.rglob("*.py"):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        assert room in HEIGHT, f"{room} is not in the layout; give it a row here"
        for other in imported_rooms(path) - {room}:
            if HEIGHT[other] >= HEIGHT[room]:
                wrong.append(f"{path.relative_to(ROOT)} imports {other}")
    assert wrong == []
