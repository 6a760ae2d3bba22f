"""The console of the command line: what it prints may hold values from data, and these never control the terminal."""

import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.segment import Segment

# Control characters, ESC and the 8-bit ones among them, but for tab and line feed; lone surrogates, which no terminal's
# encoding has; and the marks that turn the direction of writing, with which a text shows as another.
_UNPRINTABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


class PlainConsole(Console):
    """Styles are Rich's alone: a character in a text that is not one to be read is shown as U+FFFD."""

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(plain(segment.text), segment.style)


def plain(text: str) -> str:
    """The text without characters that a terminal obeys."""
    return _UNPRINTABLE.sub("\ufffd", text)
