"""Selects a source's files in a directory by their names, and reads columns from the names of their directories.

A writer such as Spark or Hive puts the rows of a day into `day=2013-01-01/`, and leaves the day out of the file. Names
alone decide, before any file is opened.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tidegate.protocol.facts.errors import MalformedRowsError, PipelineDefinitionError
from tidegate.sources.names import is_finished

if TYPE_CHECKING:
    from pyspark.sql import Column

#: The text for null in the name of a directory.
NULL = "__HIVE_DEFAULT_PARTITION__"

_COLUMN = re.compile(r"\s*([A-Za-z_]\w*)\s*[: ]\s*(\w+)\s*", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_BITS = {"INT": 32, "INTEGER": 32, "BIGINT": 64, "LONG": 64}
_TYPES = ("STRING", "DATE", *_BITS)


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A column whose value is in the name of a directory, as `name=value`."""

    name: str
    type: str

    def text_in(self, path: str) -> str | None:
        """Return its text in a file's relative path; None if there is none. The innermost directory counts."""
        found = [part for part in path.split("/")[:-1] if part.startswith(f"{self.name}=")]
        return unquote(found[-1][len(self.name) + 1 :]) if found else None

    def holds(self, text: str) -> bool:
        """Whether the text is a value of the column's type."""
        if text == NULL or self.type == "STRING":
            return True
        if self.type == "DATE":
            return bool(_DAY.fullmatch(text)) and _is_day(text)
        limit = 1 << (_BITS[self.type] - 1)
        return bool(_WHOLE.fullmatch(text)) and -limit <= int(text) < limit

    def of(self, path: "Column") -> "Column":
        """Return the Spark column for a column of checked paths. A plus sign is not a blank here."""
        from pyspark.sql import functions as F

        text = F.regexp_extract(path, f"(?s)^(?:.*/)?{self.name}=([^/]*)/", 1)
        value = F.url_decode(F.replace(text, F.lit("+"), F.lit("%2B")))
        return F.when(value != NULL, value).cast(self.type).alias(self.name)


def partition_columns(ddl: str) -> tuple[PartitionColumn, ...]:
    """Parse a text such as "day DATE, country STRING". Raise `PipelineDefinitionError`."""
    columns: list[PartitionColumn] = []
    for part in ddl.split(","):
        found = _COLUMN.fullmatch(part)
        if found is None or found[2].upper() not in _TYPES:
            raise PipelineDefinitionError(
                f'partitions={ddl!r} is not a list of columns such as "day DATE, country STRING"; the types are '
                f"{', '.join(_TYPES)}"
            )
        columns.append(PartitionColumn(found[1], found[2].upper()))
    if len({column.name.lower() for column in columns}) < len(columns):
        raise PipelineDefinitionError(f"partitions={ddl!r} names a column twice")
    return tuple(columns)


@dataclass(frozen=True, slots=True)
class Selection:
    """The files that a source takes, by their names alone. `glob` and `exclude` are patterns without braces."""

    glob: tuple[str, ...]
    exclude: tuple[str, ...]
    end_marker: str | None

    def takes(self, path: str, found_by: str | None = None) -> bool:
        """Whether a file is the source's. `found_by` is the link that led to it, if one did."""
        return path != self.end_marker and self.why_not(path, found_by or path) is None

    def why_not(self, path: str, found_by: str) -> str | None:
        """Return why a file is left out; None if it is not."""
        name = found_by.rpartition("/")[2]
        if not is_finished(found_by) or not is_finished(path.rpartition("/")[2]):
            return "by its name not finished, hidden, or about another file"
        if not any(fnmatchcase(name, pattern) for pattern in self.glob):
            return "not matched by glob"
        return "left out by exclude" if any(fnmatchcase(name, pattern) for pattern in self.exclude) else None


def takes_none(location: str, paths: Sequence[str], found_by: Mapping[str, str], selection: Selection) -> str | None:
    """Return a sentence if there are files, and the source takes none of them."""
    causes = [(selection.why_not(path, found_by.get(path, path)), path) for path in paths]
    causes = [(why, path) for why, path in causes if path != selection.end_marker]
    if not causes or any(why is None for why, _ in causes):
        return None
    counted = Counter(why for why, _ in causes).most_common()
    why = "; ".join(f"{number} {cause}" for cause, number in counted)
    has = "1 file" if len(causes) == 1 else f"{len(causes)} files"
    return (
        f"{location} has {has}, and the source takes none of them, such as {min(path for _, path in causes)} ({why}). "
        "Nothing is read until there is one that it takes."
    )


def patterns(text: str) -> tuple[str, ...]:
    """Expand the braces of a pattern of file names: `*.{csv,txt}` is `*.csv` and `*.txt`. Raise
    `PipelineDefinitionError` for a pattern that no file's name can match."""
    if not text or "/" in text or "\0" in text:
        raise PipelineDefinitionError('must be a pattern of file names, such as "*.csv"')
    found = _without_braces(text)
    if found is None:
        raise PipelineDefinitionError('has braces that do not match, such as "*.{csv,txt}" has them')
    if ranges := [part for part in re.findall(r"\{([^{},]*)\}", text) if ".." in part]:
        raise PipelineDefinitionError(f"has the range {{{ranges[0]}}}, which is not expanded: list the names")
    return found


def require_possible(glob: Sequence[str]) -> None:
    """Raise `PipelineDefinitionError` if these patterns match only files that are never read."""
    literal = [re.sub(r"\[[^]]+\]", "x", pattern).replace("?", "x").replace("*", "x") for pattern in glob]
    if not any(map(is_finished, literal)):
        raise PipelineDefinitionError(
            "matches only names that are never read: those of unfinished or hidden files, and of files about other "
            "files (docs/reference/file-source.md)"
        )


def _without_braces(text: str) -> tuple[str, ...] | None:
    """Return the patterns; None if braces do not match. `[{]` and `[}]` are literal braces."""
    plain = re.sub(r"\[[{}]\]", "xxx", text)
    begin = plain.rfind("{")
    if begin < 0:
        return None if "}" in plain else (text,)
    end = plain.find("}", begin)
    if end < 0:
        return None
    found: list[str] = []
    for choice in text[begin + 1 : end].split(","):
        more = _without_braces(text[:begin] + choice + text[end + 1 :])
        if more is None:
            return None
        found += more
    return tuple(dict.fromkeys(found))


def check_directories(location: str, paths: Iterable[str], columns: Sequence[PartitionColumn]) -> None:
    """Raise `MalformedRowsError` for a file whose directories do not give each column a value of its type."""
    for path in paths if columns else ():
        for column in columns:
            text = column.text_in(path)
            if text is not None and column.holds(text) and not re.search("%(?![0-9A-Fa-f]{2})", path):
                continue
            what = f"has no directory {column.name}=…" if text is None else f"has {column.name}={text!r}"
            raise MalformedRowsError(
                f"{location}/{path} {what}, and the source declares the column {column.name} {column.type} by the "
                "names of directories. Nothing was read. Move the file to where it belongs, or correct `partitions`, "
                "then run again."
            )


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
