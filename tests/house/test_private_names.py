"""No private name of a library is used that is not on the list of those that a test holds against new releases."""

import ast
from pathlib import Path

from private_names import OTHERS, shortcuts

ROOT = Path(__file__).parents[2] / "include" / "tidegate"
#: Of Python itself; of rich, whose tables `tests/cli/screens` show; and what SQLAlchemy documents, underscore or not.
KNOWN = {"_exit", "_getframe", "_index", "_mapping"}


def trees() -> dict[str, ast.Module]:
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def named_here(tree: ast.Module) -> set[str]:
    """The names that a file gives: functions, classes, variables, fields, attributes of `self` and `cls`."""
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return found


def test_private_names_of_libraries_are_on_the_list():
    files = trees()
    ours = set().union(*(named_here(tree) for tree in files.values()))
    names = [*OTHERS, *(name for one in shortcuts() for name in one.names)]
    listed = KNOWN | {name.replace("().", ".").rpartition(":")[2].rpartition(".")[2] for name in names}
    strangers = [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for path, tree in files.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in ours | listed
    ]
    assert strangers == []


def test_the_list_names_files_that_there_are():
    assert [where for where in OTHERS.values() if not (ROOT / where).is_file()] == []
