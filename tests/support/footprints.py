"""What a document rests on: its own text, the code that it links to or imports, and the commands that it types."""

import importlib
import importlib.util
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

_LINK = re.compile(r"\]\(((?!https?:|#)[^)#\s]+)")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ .*?\btidegate ((?:[a-z][\w-]* ?)+)", re.MULTILINE)
_IMPORT = re.compile(r"^\s*(?:from (tidegate[\w.]*) import (.+)|import (tidegate[\w.]*))$", re.MULTILINE)


def footprint(document: Path, commands: TyperGroup) -> str:
    """A digest of all of it. What lies behind that code is not looked at: `make test-long` runs every document."""
    digest = sha256(document.read_bytes())
    for file in sorted(_files(document, commands)):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _files(document: Path, commands: TyperGroup) -> set[Path]:
    text = document.read_text()
    linked = {(document.parent / target).resolve() for target in _LINK.findall(text)}
    found = {each for each in linked if each.suffix == ".py"}
    for language, block in _BLOCK.findall(text):
        if language == "console":
            found |= {_file_of(module) for module in _typed(block, commands)}
        elif language == "python":
            found |= {_file_of(module) for module in _imported(block)}
    return found


def _typed(block: str, commands: TyperGroup) -> Iterator[str]:
    """The modules of the commands."""
    for words in _COMMAND.findall(block):
        command: Any = commands
        for word in words.split():
            if not isinstance(command, TyperGroup):
                break
            command = command.get_command(typer.Context(command), word)
        if command is not None and command.callback is not None:
            yield command.callback.__module__


def _imported(block: str) -> Iterator[str]:
    """Modules, and for each public name the module that has it."""
    for package, names, module in _IMPORT.findall(block):
        yield package or module
        for name in re.findall(r"\w+", names):
            yield getattr(getattr(importlib.import_module(package), name, None), "__module__", package)


def _file_of(module: str) -> Path:
    found = importlib.util.find_spec(module)
    assert found is not None, module
    assert found.origin is not None, module
    return Path(found.origin)
