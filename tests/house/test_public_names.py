"""Public names are imported when first used. Type checkers see each where it is found then."""

import ast
from importlib import import_module
from pathlib import Path

import pytest
from cases import for_each

PACKAGES = ["tidegate", "tidegate.airflow", "tidegate.savepoint", "tidegate.state"]


def typed(package):
    """What a package imports for type checkers: the module and the name there, by public name."""
    tree = ast.parse(Path(import_module(package).__file__).read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: (node.module, alias.name) for node in imports for alias in node.names}


@for_each("package", PACKAGES)
def test_a_public_name_is_what_type_checkers_take_it_for(package):
    module, names = import_module(package), typed(package)
    assert names.keys() - set(module.__all__) == ({"state"} if package == "tidegate" else set())
    for name in module.__all__:
        where, original = names[name]
        assert getattr(module, name) is getattr(import_module(where), original), name


@for_each("package", PACKAGES)
def test_no_other_name_is_found(package):
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Piepline'"):
        import_module(package).__getattr__("Piepline")
