"""Imports go one way: a row of the layout may import only rows above it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pureward

ROOT = Path(pureward.__file__).parent

#: The rows of the layout, lowest first; rooms of one row do not import each other.
ROWS = [
    {"errors", "interrupt", "interval", "progress"},
    {"types", "registry", "settings", "gym"},
    {"files", "pixels", "capture", "adam", "distributed.children", "distributed.cluster"},
    {"kernels.sim"},
    {"envs.sim"},
    {"envs.tasks"},
    {"envs"},
    {"rewards", "agents", "data", "picture"},
    {"kernels"},
    {"relabel"},
    {"purl"},
    {"runs"},
    {"diagnostics"},
    {"online"},
    {"hooks", "scoring", "distributed.actors"},
    {"training"},
    {"distributed", "offline"},
    {"demo", "studio"},
    {"paper"},
    {"cli"},
    {"__main__"},
]
HEIGHT = {room: height for height, row in enumerate(ROWS) for room in row}


def room_of(name: str) -> str | None:
    """The room that a module lies in, such as "envs.sim" for "envs.sim.camera"."""
    parts = name.split(".")
    return next((r for n in (2, 1) if (r := ".".join(parts[:n])) in HEIGHT), None)


def imported(path: Path) -> Iterator[tuple[str, bool]]:
    """Modules of ours that a file imports, and whether it does so when it is imported itself."""
    tree = ast.parse(path.read_text())
    inner = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) or _for_types(function)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pureward"):
            base = (node.module or "").removeprefix("pureward").removeprefix(".")
            for alias in node.names:
                yield ".".join(filter(None, (base, alias.name))), id(node) not in inner
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("pureward."):
                    yield alias.name.removeprefix("pureward."), id(node) not in inner


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def test_imports_go_one_way():
    wrong = []
    for path in ROOT.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if name == "__init__":
            continue
        room = room_of(name)
        assert room is not None, f"{name} is not in the layout; give it a row here"
        for module, at_once in imported(path):
            other = room_of(module)
            # Plain code asks for kernels where it runs; kernels know the plain code they replace.
            if other is None or other == room or (other == "kernels" and not at_once):
                continue
            if HEIGHT[other] >= HEIGHT[room]:
                wrong.append(f"{name} imports {module}")
    assert wrong == []


def test_no_files_import_each_other_in_a_circle():
    """Imports in functions and for types count too."""
    names = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in ROOT.rglob("*.py")
    }
    names = {name.removesuffix(".__init__"): path for name, path in names.items()}
    waiting = {
        name: {found for module, _ in imported(path) if (found := _file_of(module, names))} - {name}
        for name, path in names.items()
        if name != "__init__"  # pureward itself: public names
    }
    while free := [name for name, others in waiting.items() if not others & waiting.keys()]:
        for name in free:
            del waiting[name]
    assert waiting == {}


def _file_of(module: str, names: dict[str, Path]) -> str:
    """The file of an imported module, or of the module that has an imported name."""
    return module if module in names else module.rpartition(".")[0]
