"""Explains errors while reading a source's files, and carries them from a Spark task to the driver.

Tidegate's own errors travel as JSON inside the message, because nothing else passes through Java or gRPC. Spark's
errors (for Parquet files) name the file, percent-encoded, with the cause below. Both have the same text on a classic
session and over Spark Connect, so the text is examined.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tidegate.protocol.facts.errors import (
    CheckpointError,
    ConfigurationError,
    MalformedRowsError,
    SourceChangedError,
    SourceUnavailableError,
    StorageError,
)
from tidegate.protocol.text.object_stores import refusal_in
from tidegate.sources.links import place_of

AS_BEFORE = "This checkpoint has no effect; positions, state and tables are as before. "
OPEN, CLOSE = "<<tidegate-read:", ":tidegate-read>>"  # hexadecimal UTF-8 of JSON in between

_MARKED = re.compile(re.escape(OPEN) + "([0-9A-Fa-f]+)" + re.escape(CLOSE))
_KINDS = {
    kind.__name__: kind
    for kind in (ConfigurationError, MalformedRowsError, SourceChangedError, SourceUnavailableError, StorageError)
}
_FILE = re.compile(r"Encountered error while reading file (\S+)\.\s")
_GONE = re.compile(r"\[PATH_NOT_FOUND\] Path does not exist: (.+?)\. SQLSTATE")
_CAUSE = re.compile(r"^Caused by: ([\w.$]+)(?:: (.+))?$", re.MULTILINE)
_MISMATCH = re.compile(
    r"mismatches when reading Parquet column \[(.+?)\]\. Expected Spark type (.+?), actual Parquet type (.+?)\. SQLST"
)
_UNSUPPORTED = re.compile(r"Unsupported encoding: (\w+)|Class [\w.$]*?(\w+)Codec was not found")
_BYTES = re.compile(r"\[(?:-?\d+(?:, )?)+\]")  # bytes of a file, in an error of Java
_SHOWN = 300  # characters of a reason or cause


@contextmanager
def carried(file: str) -> Iterator[None]:
    """Let errors reach the driver complete that are raised while a Spark task reads a file (absolute path or URL)."""
    try:
        yield
    except CheckpointError as error:
        content = json.dumps({"class": type(error).__name__, "message": str(error), "file": file})
        raise RuntimeError(f"{OPEN}{content.encode().hex()}{CLOSE}") from error


@dataclass(frozen=True, slots=True)
class Carried:
    """An error of Tidegate, and the `file` that was read when it was raised."""

    error: CheckpointError
    file: str


def carried_in(text: str) -> Carried | None:
    """Return the error that `carried` put into a message of Spark; None if there is none."""
    marked = _MARKED.search(text)
    found = json.loads(bytes.fromhex(marked[1])) if marked else {}
    if "class" not in found:
        return None
    return Carried(_KINDS.get(found["class"], CheckpointError)(found["message"]), found["file"])


def translate_read_error(
    error: BaseException, location: str, paths: Iterable[str], line_of: Callable[[str, int, int], int]
) -> CheckpointError | None:
    """Return the error to raise instead if `error` comes from reading one of these files below `location`, else None.

    `line_of(path, part, line)` is the line number in the file for a line number in one of its parts.
    """
    text = str(error)
    known = set(paths)
    if read := carried_in(text):
        return read.error if read.file == location or read.file.removeprefix(f"{location}/") in known else None
    if marked := _MARKED.search(text):
        found = json.loads(bytes.fromhex(marked[1]))
        if found["location"] != location or found["file"] not in known:
            return None
        return _misfit(found, line_of)
    return _of_spark(text, {place_of(location, path) for path in known})


def vanished(file: str) -> SourceChangedError:
    return SourceChangedError(
        f"{file} was there when this checkpoint listed it and was gone before its rows were read. {AS_BEFORE}Put it "
        "back if it should be read, then run again."
    )


def _not_found(file: str) -> SourceChangedError:
    if file.isascii():
        return vanished(file)
    return SourceChangedError(
        f"Spark cannot find {file}, which was there when this checkpoint listed it. {AS_BEFORE}If the file is gone, "
        "put it back. If it is there, Spark's Java runs with a locale that is not UTF-8 and cannot open such names: "
        "start it with LC_ALL=C.UTF-8. Then run again."
    )


def damaged(file: str, why: str) -> MalformedRowsError:
    reason = _short(_BYTES.sub("other bytes", why))
    return MalformedRowsError(
        f"{file} cannot be read: {reason}. It is damaged, incomplete or of another format. {AS_BEFORE}"
        "Replace the file or move it away, then run again."
    )


def unreadable(file: str, error: Exception) -> CheckpointError:
    """Return the error for a file that cannot be read: the store refuses it, or its content is invalid."""
    if (refusal := refusal_in(error)) is not None:
        return StorageError(f"{file} cannot be read: {refusal.why}. {AS_BEFORE}{refusal.advice}, then run again.")
    return damaged(file, str(error))


def of_other_type(file: str, column: str, stored: str, declared: str, advice: str) -> MalformedRowsError:
    return MalformedRowsError(
        f"{file} has the column {column} as {stored}, which is not read as {declared}, its type in the schema. "
        f"The file is not damaged. {AS_BEFORE}{advice}, or deliver the file with that type. Then run again."
    )


def _unsupported(file: str, what: str) -> MalformedRowsError:
    return MalformedRowsError(
        f"{file} is written with {what}, which Spark does not read. The file is not damaged. {AS_BEFORE}Deliver it "
        "with a compression and encodings that Spark has, such as zstd and dictionaries, then run again."
    )


def _misfit(found: dict[str, Any], line_of: Callable[[str, int, int], int]) -> MalformedRowsError:
    """Return the error for a record. It does not quote it: an unexpected file may hold secrets."""
    line = line_of(found["file"], found["part"], found["line"])
    return MalformedRowsError(
        f"{found['location']}/{found['file']} has a row that does not fit the source's schema: line {line} "
        f"({_short(found['reason'])}). {AS_BEFORE}Correct the file, or let the source "
        'quarantine such rows with malformed="quarantine", then run again.'
    )


def _of_spark(text: str, files: set[str]) -> CheckpointError | None:
    if gone := _GONE.search(text):
        return _not_found(_plain(gone[1])) if _plain(gone[1]) in files else None
    read = _FILE.search(text)
    if read is None or (file := _plain(unquote(read[1]))) not in files:
        return None
    if "FILE_NOT_EXIST" in text:
        return _not_found(file)
    if mismatch := _MISMATCH.search(text):
        column, declared, stored = mismatch.groups()
        return of_other_type(file, column, stored, declared.upper(), "Declare the column as it is stored")
    if unsupported := _UNSUPPORTED.search(text):
        return _unsupported(file, unsupported[1] or unsupported[2])
    causes = [message or kind.rpartition(".")[2] for kind, message in _CAUSE.findall(text)]
    return damaged(file, causes[-1] if causes else "Spark gives no reason")


def _plain(location: str) -> str:
    return re.sub(r"^file:/+", "/", location).replace("s3a://", "s3://", 1)


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
