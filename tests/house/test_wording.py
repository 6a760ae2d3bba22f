"""Docstrings open with a verb or a noun, and texts use the usual words. ruff checks the form of docstrings."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from cases import for_each

ROOT = Path(__file__).parents[2]
ROOMS = sorted(path for path in (ROOT / "include" / "tidegate").iterdir() if path.is_dir() and any(path.glob("*.py")))

#: Words that begin neither a sentence with a verb nor the name of a thing. "Whether …" may open a predicate.
OPENING = re.compile(
    r"(what|of|those|how|by|where|as|which|with|why|for|none|without|in|when|who|its|that|their|after|before|until|if"
    r"|from|on|also|once|at|whoever|nobody|somebody|this|these|it|his|to|up|only|raises|returns|around|false|true|under"
    r"|between|above|below|inside|such|theirs|other|same|not|there|here|then|while|because|since|has|is|are|was|were|have"
    r"|the (?:same|ones?|others?))\b(?!['`])",
    re.IGNORECASE,
)
#: Words that a reader stumbles over, and those that name nobody.
WORDS = re.compile(
    r"\b(whoever|nobody|somebody|anybody|gestures?|deeds?|beside|pictures?|pictured|fold(?:s|ing)?|mend(?:s|ed|ing)?"
    r"|what (?:is|was|were|are|has|had|it|they|comes|came|can|there)|look(?:s|ed|ing)? (?:at|for|whether|now|what)"
    r"|(?:is|are|was|were) told|hears?|heard|(?:it|that) says)\b",
    re.IGNORECASE,
)
#: Triggers that databases have: their messages change with a migration.
RELEASED = {"guards.py"}
#: In documents headings and questions may ask "what …".
NAMELESS = re.compile(r"\b(whoever|nobody|somebody|anybody|gestures?|deeds?)\b", re.IGNORECASE)


def docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""


def opens_badly(docstring: str) -> bool:
    return OPENING.match(docstring.strip()) is not None


def texts(source: str) -> Iterator[str]:
    """The comments and strings, line by line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING) or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            yield from token.string.splitlines()


def strange(source: str) -> list[str]:
    """The lines with a strange word. Names in code are none: in backticks, in braces, or a string by itself."""
    return [
        line
        for line in texts(source)
        if WORDS.search(re.sub(r"`[^`]*`|\{[^{}]*\}", "", line)) and not re.fullmatch(r"['\"]\w+['\"]", line)
    ]


def files_of(room: Path) -> list[Path]:
    return sorted(room.rglob("*.py"))


@for_each("room", [*ROOMS, ROOT / "include" / "tidegate"], ids=lambda room: room.name)
def test_docstrings_open_with_a_verb_or_a_noun(room: Path) -> None:
    files = files_of(room) if room in ROOMS else sorted(room.glob("*.py"))
    found = [(path.name, each) for path in files for each in docstrings(path.read_text()) if opens_badly(each)]
    assert found == []


@for_each("room", [*ROOMS, ROOT / "include" / "tidegate"], ids=lambda room: room.name)
def test_texts_use_the_usual_words(room: Path) -> None:
    files = files_of(room) if room in ROOMS else sorted(room.glob("*.py"))
    assert [
        (path.name, line) for path in files if path.name not in RELEASED for line in strange(path.read_text())
    ] == []


def test_documents_name_the_actor() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    assert len(pages) > 60
    found = [(path.name, line) for path in pages for line in path.read_text().splitlines() if NAMELESS.search(line)]
    assert found == []


def test_a_bad_opening_and_a_strange_word_are_noticed() -> None:
    assert opens_badly("Of one pipeline, on a session.")
    assert opens_badly("The same, of what came since.")
    assert opens_badly("Raises `KeyError`.")
    assert not opens_badly("Return the files of a pipeline.")
    assert not opens_badly("The pending writes of one region.")
    assert not opens_badly("Whether the file is complete.")
    assert not opens_badly("")
    assert strange('f"It is told {now} to whoever asks"  # a note')
    assert not strange('x = f"Look the key up {row.mend}."  # Rich breaks lines by `fold`')
