"""Reads small Parquet files inside a Spark task with Arrow: the same rows as Spark's reader, without its start-up time.

Only data that has the same meaning for both is read here. A column whose type differs from the schema's, a date from
before the calendars agreed, or a damaged file is left to Spark, which converts it or reports the error. Runs on
executors, which need only pyarrow.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.ports import LeftToSparkError
from tidegate.sources.links import moved_away
from tidegate.sources.listing import FileVersion

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tidegate.sources.files import FileSource

_MOST_FILES = 100  # every reading Spark task opens all of them
_COMPRESSIONS = {"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"}
_ENCODINGS = {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"}
ROWS = 131_072  # of a batch
# Before these, the calendar of a file's writer matters to Spark: 1582-10-15 in days, 1900-01-01 in microseconds.
_FIRST_DAY, _FIRST_MICROSECOND = -141_427, -2_208_988_800_000_000


def reader_of(source: "FileSource", location: str, files: Sequence[FileVersion]) -> "ParquetReader | None":
    """Return a reader; None if Spark must read these files. Spark also refuses a colon in a name."""
    if source.options or source.partitions or not 0 < len(files) <= _MOST_FILES:
        return None
    paths = tuple(file.path for file in files)
    return None if any(":" in path for path in paths) else ParquetReader(location, paths, source.aliases)


@dataclass(frozen=True, slots=True)
class ParquetReader:
    """Implements `ports.ArrowReader` for files below `location`, a directory or a URL."""

    location: str
    paths: tuple[str, ...]
    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def read(self, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        from pyarrow import fs, parquet

        try:
            filesystem, root = fs.FileSystem.from_uri(self.location)
            for path in self.paths:
                with filesystem.open_input_file(f"{root.rstrip('/')}/{path}") as stream:
                    if moved_away(filesystem, root.rstrip("/"), [path]):
                        raise LeftToSparkError(f"{path} is reached through a link")
                    yield from _rows(parquet.ParquetFile(stream), schema, self.aliases)
        except (OSError, pa.ArrowException) as error:
            raise LeftToSparkError(str(error)) from error


def _rows(
    file: "pq.ParquetFile", schema: "pa.Schema", aliases: Mapping[str, Sequence[str]]
) -> "Iterator[pa.RecordBatch]":
    found = _found(file.schema_arrow, schema, aliases)
    stored = list(found.values())
    _require_plain(file.metadata, stored)
    if not found:  # a file without any of the columns still has rows
        yield from (_batch(count, {}, schema) for count in _counts(file.metadata.num_rows))
        return
    for batch in file.iter_batches(ROWS, columns=stored, use_threads=False):
        columns = {name: batch.column(there) for name, there in found.items()}
        if not all(map(is_of_one_calendar, columns.values())):
            raise LeftToSparkError("there are dates of a calendar that only Spark knows")
        yield _batch(batch.num_rows, columns, schema)


def _found(stored: "pa.Schema", schema: "pa.Schema", aliases: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the columns of `schema` that the file has, with the file's names for them."""
    names: dict[str, list[str]] = {}
    for name in stored.names:
        names.setdefault(name.lower(), []).append(name)
    found = {}
    for column in schema:
        called = [column.name, *aliases.get(column.name, ())]
        same = [name for alias in called for name in names.get(alias.lower(), [])]
        # Whether case counts is a setting of the session. Arrow takes a dot for the path into a struct.
        if len(same) > 1 or not set(same) <= set(called) or any("." in name for name in same):
            raise LeftToSparkError(f"it is not clear which column is {column.name}")
        if same:
            kind = stored.field(same[0]).type
            if not _means_the_same(kind, column.type):
                raise LeftToSparkError(f"{column.name} is {kind} and should be {column.type}")
            found[column.name] = same[0]
    return found


def _require_plain(metadata: "pq.FileMetaData", columns: Sequence[str]) -> None:
    """Raise `LeftToSparkError` unless these columns are stored in a way that Spark's reader supports, too."""
    places = [at for at in range(metadata.num_columns) if metadata.schema.column(at).path in columns]
    for group in range(metadata.num_row_groups):
        for at in places:
            column, kind = metadata.row_group(group).column(at), metadata.schema.column(at)
            if column.compression not in _COMPRESSIONS or not column.encodings or {*column.encodings} - _ENCODINGS:
                raise LeftToSparkError(f"it is written with {column.compression} and {column.encodings}")
            if column.physical_type == "BYTE_ARRAY" and kind.logical_type.type == "DECIMAL":
                raise LeftToSparkError("its decimals are of varying length")


def _means_the_same(stored: "pa.DataType", wanted: "pa.DataType") -> bool:
    import pyarrow as pa

    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(wanted):  # the name of a zone changes no instant
        return stored.unit == wanted.unit == "us" and (stored.tz is None) == (wanted.tz is None)
    return bool(stored == wanted or (pa.types.is_large_string(stored) and pa.types.is_string(wanted)))


def is_of_one_calendar(column: "pa.Array") -> bool:
    """Whether no value is from before the calendars agreed."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_date32(column.type):
        first, numbers = _FIRST_DAY, column.view(pa.int32())
    elif pa.types.is_timestamp(column.type):
        first, numbers = _FIRST_MICROSECOND, column.view(pa.int64())
    else:
        return True
    smallest = pc.min(numbers).as_py()
    return smallest is None or smallest >= first


def _counts(rows: int) -> Iterator[int]:
    for begin in range(0, rows, ROWS):
        yield min(ROWS, rows - begin)


def _batch(count: int, columns: "Mapping[str, pa.Array]", schema: "pa.Schema") -> "pa.RecordBatch":
    import pyarrow as pa

    arrays = []
    for wanted in schema:
        column = columns.get(wanted.name)
        column = pa.nulls(count, wanted.type) if column is None else column
        arrays.append(column if column.type == wanted.type else column.cast(wanted.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
