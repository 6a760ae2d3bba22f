"""How a command that keeps running logs: in columns on a terminal, and as one plain line a message everywhere else."""

import logging

from rich.console import Console
from rich.logging import RichHandler

from tidegate.cli.console import plain


def log_to(console: Console) -> logging.Handler:
    """A handler that writes to a console, which a file or a collector of logs may read."""
    if console.is_terminal:
        return RichHandler(console=console, show_path=False, markup=False, log_time_format="%H:%M:%S")
    # Rich fills each line up to the width of the console, which has none here.
    handler = logging.StreamHandler(console.file)
    handler.setFormatter(_Lines("%(asctime)s %(levelname)-8s %(message)s", "%Y-%m-%d %H:%M:%S"))
    return handler


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))
