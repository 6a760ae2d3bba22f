"""Line numbers for errors. A part of a file does not know how many lines come before it."""

from typing import TYPE_CHECKING

from tidegate.sources.decoding import PIECE
from tidegate.sources.quotes import Rules
from tidegate.sources.text_records import line_ends

if TYPE_CHECKING:
    import pyarrow.fs as pafs


def count_lines(data: bytes, rules: Rules) -> int:
    """Return the number of line ends in a text."""
    import numpy as np  # heavy, and files.py is imported when Airflow parses a DAG

    return len(line_ends(np.frombuffer(data, np.uint8), data, rules.line_end, final=False)[0]) + data.endswith(b"\r")


def lines_before(filesystem: "pafs.FileSystem", path: str, rules: Rules, end: int) -> int:
    """Return the number of line ends before byte `end` of a file that can be read from any byte on."""
    lines, last, left = 0, b"", end
    with filesystem.open_input_file(path) as stream:
        while left and (piece := stream.read(min(PIECE, left))):
            left -= len(piece)
            lines += count_lines(piece, rules) - (last == b"\r" and piece[:1] == b"\n")
            last = piece[-1:]
    return lines
