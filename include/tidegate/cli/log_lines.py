"""Log output of commands that keep running: columns on a terminal, and otherwise one plain line per message."""

import logging

from rich.console import Console
from rich.logging import RichHandler

from tidegate.cli.console import plain


def log_to(console: Console) -> logging.Handler:
    """Return a handler that writes to a console, whose output a file or a log collector may read."""
    if console.is_terminal:
        return RichHandler(console=console, show_path=False, markup=False, log_time_format="%H:%M:%S")
    # Rich pads each line to the width of the console, which has no width here.
    handler = logging.StreamHandler(console.file)
    handler.setFormatter(_Lines("%(asctime)s %(levelname)-8s %(message)s", "%Y-%m-%d %H:%M:%S"))
    return handler


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))
