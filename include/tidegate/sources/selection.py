"""Which of a directory's files belong to a source, and the columns that the names of their directories give.

A writer such as Spark or Hive puts the rows of a day into `day=2013-01-01/`, and leaves the day out of the file. Names
alone decide, before any file is opened.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote

from tidegate.protocol.errors import MalformedRowsError, PipelineDefinitionError

#: What stands for null in the name of a directory.
NULL = "__HIVE_DEFAULT_PARTITION__"

_COLUMN = re.compile(r"\s*([A-Za-z_]\w*)\s*[: ]\s*(\w+)\s*", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_BITS = {"INT": 32, "INTEGER": 32, "BIGINT": 64, "LONG": 64}
_TYPES = ("STRING", "DATE", *_BITS)


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A column whose value stands in the name of a directory, as `name=value`."""

    name: str
    type: str

    def text_in(self, path: str) -> str | None:
        """What stands in a file's relative path; None if nothing does. The innermost directory counts."""
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

    def of(self, path: Any) -> Any:
        """The Spark column for a column of paths, each of which has been checked. A plus sign is no blank here."""
        from pyspark.sql import functions as F

        text = F.regexp_extract(path, f"(?s)^(?:.*/)?{self.name}=([^/]*)/", 1)
        value = F.url_decode(F.replace(text, F.lit("+"), F.lit("%2B")))
        return F.when(value != NULL, value).cast(self.type).alias(self.name)


def partition_columns(ddl: str) -> tuple[PartitionColumn, ...]:
    """Of a text such as "day DATE, country STRING". Raises `PipelineDefinitionError`."""
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


def is_selected(path: str, glob: str, exclude: Sequence[str]) -> bool:
    """Whether the name of a file matches the pattern, and none of those excluded, by the shell's rules."""
    name = path.rpartition("/")[2]
    return fnmatchcase(name, glob) and not any(fnmatchcase(name, pattern) for pattern in exclude)


def check_directories(location: str, paths: Iterable[str], columns: Sequence[PartitionColumn]) -> None:
    """Raise `MalformedRowsError` for a file whose directories do not give each column a value of its type."""
    for path in paths if columns else ():
        for column in columns:
            text = column.text_in(path)
            if text is not None and column.holds(text) and not re.search("%(?![0-9A-Fa-f]{2})", path):
                continue
            what = f"has no directory {column.name}=…" if text is None else f"says {column.name}={text!r}"
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
