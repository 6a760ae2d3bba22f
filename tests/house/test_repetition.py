"""An error that says that a repetition is all it needs has no class that says it cannot help."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import tidegate
from tidegate.cli.exit_codes import ExitCode, exit_code_of
from tidegate.protocol.facts import errors

ROOT = Path(tidegate.__file__).parent
#: As a sentence of its own: nothing else is to be done first.
REPEATS = re.compile(
    r"(?:^|[.:] )(?:Repeat (?!.*\bonce\b)|Try again|Ask again|Run (?:the step |the checkpoint )?again)"
)


def texts(node: ast.AST) -> str:
    """All that is written in the arguments of a call, in its order."""
    parts = (each for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str))
    ordered = sorted(parts, key=lambda each: (each.lineno, each.col_offset))
    return "".join(str(each.value) for each in ordered)


def name_of(node: ast.expr | None) -> str:
    match node:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
        case ast.Constant(str() as name):
            return name
    return ""


def raised() -> Iterator[tuple[str, str, str]]:
    """Where an error is made, its class and its text. What makes one says so in its annotation."""
    trees = {path: ast.parse(path.read_text()) for path in ROOT.rglob("*.py")}
    made = {
        each.name: name_of(each.returns)
        for tree in trees.values()
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef) and name_of(each.returns).endswith("Error")
    }
    for path, tree in trees.items():
        for each in ast.walk(tree):
            if isinstance(each, ast.Call):
                kind = made.get(name_of(each.func), name_of(each.func))
                if isinstance(getattr(errors, kind, None), type):
                    yield f"{path.relative_to(ROOT)}:{each.lineno}", kind, texts(each)


def test_what_a_repetition_mends_is_repeated() -> None:
    found = [(place, getattr(errors, kind)) for place, kind, text in raised() if REPEATS.search(text)]
    assert len(found) > 8, "the search finds nothing any more"
    mistaken = [place for place, kind in found if issubclass(kind, errors.DeterministicError)]
    mistaken += [place for place, kind in found if exit_code_of(kind("")) is ExitCode.USAGE]
    assert not mistaken


def test_the_search_sees_through_functions_that_make_errors() -> None:
    kinds = {kind for _, kind, _ in raised()}
    assert {"CopyInterruptedError", "RestoreRefusedError", "StoreUnavailableError"} <= kinds
    assert REPEATS.search("Nothing was changed. Repeat the command.")
    assert not REPEATS.search("Correct the rows, then repeat it.")
