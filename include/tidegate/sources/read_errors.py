"""What Spark's errors while reading a source's files mean to the user.

Spark wraps every failure in the same error; the file is named in it, percent-encoded, and the cause stands below. Both
are the same text on a classic session and over Spark Connect, so the text is what is looked at.
"""

import re
from collections.abc import Iterable
from urllib.parse import unquote

from tidegate.protocol.errors import CheckpointError, MalformedRowsError, SourceChangedError

_FILE = re.compile(r"Encountered error while reading file (\S+)\.\s")
_GONE = re.compile(r"\[PATH_NOT_FOUND\] Path does not exist: (.+?)\. SQLSTATE")
_HEADER = re.compile(r"SparkIllegalArgumentException: ((?:CSV header|Number of column).+?)CSV file:", re.DOTALL)
_RECORD = re.compile(r"Malformed records are detected in record parsing: (.*)")
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.MULTILINE)
_MISMATCH = re.compile(r"Data type mismatches when reading (.+?)\. SQLSTATE")
_SHOWN = 300  # characters of a row or cause
_AS_BEFORE = "Nothing of this checkpoint counts; positions, state and tables are as before. "


def translate_read_error(error: BaseException, files: Iterable[str]) -> CheckpointError | None:
    """The error to raise instead if `error` comes from reading one of `files` (absolute paths or URLs), else None."""
    text = str(error)
    if gone := _GONE.search(text):
        return _vanished(_plain(gone[1])) if _plain(gone[1]) in set(files) else None
    read = _FILE.search(text)
    if read is None or (file := _plain(unquote(read[1]))) not in set(files):
        return None
    if "FILE_NOT_EXIST" in text:
        return _vanished(file)
    if header := _HEADER.search(text):
        return MalformedRowsError(
            f"The columns of {file} are not those of the source's schema. {' '.join(header[1].split())}. {_AS_BEFORE}"
            "Correct the file or the schema, then run again."
        )
    causes = _CAUSE.findall(text)
    if record := _RECORD.search(text):
        return MalformedRowsError(
            f"{file} has a row that does not fit the source's schema: {_short(record[1])} {_short(causes[-1])} "
            f"{_AS_BEFORE}Correct the file, or let the source keep such rows apart with "
            'malformed="quarantine", then run again.'
        )
    mismatch = _MISMATCH.search(text)
    why = mismatch[1] if mismatch else causes[-1] if causes else "Spark gives no reason"
    return MalformedRowsError(
        f"{file} cannot be read: {_short(why)}. It is damaged, incomplete or of another format. {_AS_BEFORE}"
        "Replace the file or move it away, then run again."
    )


def _vanished(file: str) -> SourceChangedError:
    return SourceChangedError(
        f"{file} was there when this checkpoint listed it and is gone before its rows were read. {_AS_BEFORE}"
        "Put it back if it should be read, then run again."
    )


def _plain(location: str) -> str:
    return re.sub(r"^file:/+", "/", location).replace("s3a://", "s3://", 1)


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
