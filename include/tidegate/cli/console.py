"""The console of the command line. Values from data that it prints never control the terminal."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions
from rich.segment import Segment

if TYPE_CHECKING:
    from rich.console import RenderableType

_WHOLE = 100_000  # characters, more than any line has

# Control characters, including ESC and the 8-bit ones, except tab and line feed; lone surrogates, which no terminal's
# encoding has; and marks that change the direction of writing, which can disguise a text.
_UNPRINTABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


class PlainConsole(Console):
    """A console on which only Rich sets styles. Characters that are not meant to be read are shown as U+FFFD. Lines
    have their full length unless the output is a terminal.
    """

    def __init__(self, **options: Any) -> None:
        """Accept Rich's options."""
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
    """Return the text without characters that control a terminal."""
    return _UNPRINTABLE.sub("\ufffd", text)
