"""The causes of an error, as texts to read: without the stacks of Java and Python."""

import re

from tidegate.protocol.text.masking import masked

_MOST = 10  # causes
_LONGEST = 1500  # characters of each
#: The lines of a stack, Java's or Python's: frames are indented, and so is what is left out of them.
_STACK = re.compile(r"\s|Traceback \(most recent")


def causes_of(error: BaseException) -> list[str]:
    """The chain below an error, nearest first, a text for each. Performs no I/O."""
    found: list[str] = []
    seen = {id(error)}
    below = _below(error)
    while below is not None and id(below) not in seen and len(found) < _MOST:
        seen.add(id(below))
        found.append(_said(below))
        below = _below(below)
    return found


def _below(error: BaseException) -> BaseException | None:
    if error.__cause__ is not None:
        return error.__cause__
    return None if error.__suppress_context__ else error.__context__


def _said(error: BaseException) -> str:
    text = str(error).partition("\n\nJVM stacktrace")[0]
    lines = [line.rstrip() for line in text.strip().splitlines() if line.strip() and not _STACK.match(line)]
    said = masked("\n".join(lines))[:_LONGEST]
    return f"{type(error).__module__}.{type(error).__qualname__}: {said}".removeprefix("builtins.").rstrip(": ")
