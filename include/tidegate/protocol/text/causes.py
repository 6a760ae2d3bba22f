"""The causes of an error as readable texts, without the stacks of Java and Python."""

import re

from tidegate.protocol.text.masking import masked

_MOST = 10  # causes
_LONGEST = 1500  # characters of one cause
#: The lines of a stack, Java's or Python's. Frames are indented, and so are remarks on omitted frames.
_STACK = re.compile(r"\s|Traceback \(most recent")


def causes_of(error: BaseException) -> list[str]:
    """Return a text for each error in the chain below an error, nearest first. Performs no I/O."""
    causes: list[str] = []
    seen = {id(error)}
    below = _below(error)
    while below is not None and id(below) not in seen and len(causes) < _MOST:
        seen.add(id(below))
        causes.append(_text_of(below))
        below = _below(below)
    return causes


def _below(error: BaseException) -> BaseException | None:
    if error.__cause__ is not None:
        return error.__cause__
    return None if error.__suppress_context__ else error.__context__


def _text_of(error: BaseException) -> str:
    text = str(error).partition("\n\nJVM stacktrace")[0]
    lines = [line.rstrip() for line in text.strip().splitlines() if line.strip() and not _STACK.match(line)]
    message = masked("\n".join(lines))[:_LONGEST]
    return f"{type(error).__module__}.{type(error).__qualname__}: {message}".removeprefix("builtins.").rstrip(": ")
