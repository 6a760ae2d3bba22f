"""The console of the command line: what it prints may hold values from data, and these never control the terminal."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions
from rich.segment import Segment

if TYPE_CHECKING:
    from rich.console import RenderableType

_WHOLE = 100_000  # characters, more than any line has

# Control characters, including ESC and the 8-bit ones, except tab and line feed. Lone surrogates, which no terminal's
# encoding has. Marks that change the direction of writing, which can show a text as another.
_UNPRINTABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


class PlainConsole(Console):
    """Only Rich sets styles: a character of a text that is not meant to be read is shown as U+FFFD. Where nobody looks
    at a screen, lines are as long as they are."""

    def __init__(self, **options: Any) -> None:
        """With Rich's options."""
        super().__init__(**options)
        if not self.is_terminal:
            self.width = _WHOLE

    def render(self, renderable: "RenderableType", options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(plain(segment.text), segment.style)


def plain(text: str) -> str:
    """The text without characters that a terminal obeys."""
    return _UNPRINTABLE.sub("\ufffd", text)
