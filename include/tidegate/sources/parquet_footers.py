"""Checks the footers of Parquet files before any row is read: the columns of a file, and whether all its rows exist.

Spark reads columns that it does not find as null, passes over row groups that a footer places outside of the file, and
truncates some integers. The result of the check is the same whether Spark reads the rows or a Spark task does by
itself.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.protocol.facts.errors import MalformedRowsError
from tidegate.sources.allowed import Aliases, Allowed
from tidegate.sources.headers import NULLS, RENAMED, twice_in
from tidegate.sources.links import place_of
from tidegate.sources.listing import FileVersion
from tidegate.sources.read_errors import AS_BEFORE, damaged, of_other_type

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pafs
    import pyarrow.parquet as pq
    from pyspark.sql.types import StructType

_THREADS = 16  # a footer of an object store is a wait
_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_HOLDS = {
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "uint8": "SMALLINT",
    "int32": "INT",
    "uint16": "INT",
    "int64": "BIGINT",
    "uint32": "BIGINT",
    "uint64": "DECIMAL(20, 0)",
}
#: A column of nulls only may have no type. Spark sees integers there, and does not read them as one of these types.
_NOT_OF_NULLS = {"string", "binary", "boolean", "timestamp", "timestamp_ntz"}
_MICROSECONDS = (
    "Spark has microseconds, and reads no nanoseconds. Deliver the file with microseconds, with pandas by "
    'to_parquet(…, coerce_timestamps="us", allow_truncated_timestamps=True)'
)
#: Reads the names of a file's columns, by its path, if Arrow does not understand its footer.
NamesOf = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Expected:
    """The columns of a schema, as a pyspark `StructType`, and the treatment of other columns and names. `exact`: the
    session distinguishes upper and lower case."""

    schema: "StructType"
    allowed: Allowed
    aliases: Aliases = field(default_factory=dict)
    exact: bool = False

    def column(self, name: str) -> str:
        """Return the column of the schema for a file's column, in lower case unless case matters."""
        column = self.aliases.get(name.lower(), name)
        return column if self.exact else column.lower()


class Footers:
    """Checks the footers of files below one location. Every version of a file is checked once."""

    def __init__(self) -> None:
        self._fine: set[tuple[bool, FileVersion]] = set()

    def check(
        self, location: str, files: Sequence[FileVersion], expected: Expected, names_of: NamesOf | None = None
    ) -> bool:
        """Raise `MalformedRowsError` for the first file that does not fit. Return False if there are footers that only
        Spark may understand, and no `names_of` to read their columns."""
        from pyarrow import fs

        filesystem, root = fs.FileSystem.from_uri(location)
        footers = _FooterCheck(filesystem, root.rstrip("/"), location, expected)
        new = [file for file in files if (expected.exact, file) not in self._fine]
        if not new:
            return True
        with ThreadPoolExecutor(min(_THREADS, len(new))) as pool:
            unknown = [file for file, known in zip(new, pool.map(footers.is_fine, new), strict=True) if not known]
        if names_of is not None:
            for file in unknown:
                footers.require_names(file, names_of(file.path))
        self._fine = {(expected.exact, file) for file in {*files} - {*unknown}}
        return not unknown


@dataclass(frozen=True, slots=True)
class _FooterCheck:
    filesystem: "pafs.FileSystem"
    root: str
    location: str
    expected: Expected

    def is_fine(self, file: FileVersion) -> bool:
        """Whether the footer is known to be fine. Raise `MalformedRowsError` if it is not."""
        import pyarrow as pa
        from pyarrow import parquet

        try:
            with self.filesystem.open_input_file(place_of(self.root, file.path)) as stream:
                if file.size < 12 or stream.read(4) not in (b"PAR1", b"PARE"):
                    raise damaged(self._name(file), "it is not a Parquet file")
                found = parquet.read_metadata(stream)
                columns = found.schema.to_arrow_schema()
        except (OSError, pa.ArrowException) as error:
            if "magic bytes" in str(error):
                raise damaged(self._name(file), "it is not a Parquet file, or its end is missing") from error
            return False
        self.require_names(file, columns.names)
        if wrong := _missing_rows(found, file.size):
            raise damaged(self._name(file), wrong)
        self._require_types(file, columns, found)
        return True

    def require_names(self, file: FileVersion, names: Sequence[str]) -> None:
        """Raise `MalformedRowsError` if the file has other columns than it may have."""
        allowed, there = self.expected.allowed, [self.expected.column(name) for name in names]
        wanted = [self.expected.column(name) for name in self.expected.schema.names]
        named = list(zip(self.expected.schema.names, wanted, strict=True))
        if twice := [name for name, key in named if there.count(key) > 1]:
            repeated = twice_in(names, [key.lower() for key in there], twice)
            case = "" if "both" in repeated else ", in upper and lower case"
            raise self._wrong(file, f"has {repeated}{case}", "")
        missing = [name for name, key in named if key not in there]
        extra = sum(key not in wanted for key in there)
        if missing and extra and allowed.adds_only:
            raise self._wrong(file, f"lacks {', '.join(missing)} and has {extra} columns more than the schema", RENAMED)
        if missing and not allowed.missing:
            similar = [name for name in names if _plain(name) in set(map(_plain, missing))]
            more = f", and has {', '.join(similar)}" if similar else ""
            raise self._wrong(file, f"lacks {', '.join(missing)}{more}", NULLS)
        if extra and not allowed.extra:
            raise self._wrong(file, f"has {extra} columns more than the schema", "Or leave out extra_columns. ")

    def _wrong(self, file: FileVersion, what: str, way_out: str) -> MalformedRowsError:
        return MalformedRowsError(
            f"The columns of {self._name(file)} are not those of the source's schema: it {what}. {AS_BEFORE}Correct "
            f"the file or the schema. {way_out}Then run again."
        )

    def _require_types(self, file: FileVersion, columns: "pa.Schema", found: "pq.FileMetaData") -> None:
        places = {self.expected.column(name).lower(): at for at, name in enumerate(columns.names)}
        for wanted in self.expected.schema:
            if (at := places.get(wanted.name.lower())) is None:
                continue
            stored, column = columns.field(at).type, _Column(found, columns.names[at])
            if advice := _unfit(stored, wanted.dataType.typeName(), column):
                declared = wanted.dataType.simpleString().upper()
                raise of_other_type(self._name(file), wanted.name, str(stored), declared, advice)

    def _name(self, file: FileVersion) -> str:
        return place_of(self.location, file.path)


def _missing_rows(found: "pq.FileMetaData", size: int) -> str | None:
    """Return why not all rows of a footer can exist; None if they can."""
    groups = [found.row_group(at) for at in range(found.num_row_groups)]
    rows = sum(group.num_rows for group in groups)
    if found.num_rows > rows:
        return f"its footer promises {found.num_rows} rows, and its row groups have {rows}"
    for group in groups:
        for at in {0, group.num_columns - 1} if group.num_columns else ():
            column = group.column(at)
            start, dictionary = column.data_page_offset, column.dictionary_page_offset
            start = dictionary if dictionary and dictionary < start else start
            if start < 0 or start + column.total_compressed_size > size:
                return f"its footer promises {found.num_rows} rows, and places some of them behind the end of the file"
    return None


def _unfit(stored: "pa.DataType", declared: str, column: "_Column") -> str | None:
    """Return the advice for a column that is stored in a type that does not fit; None if Spark may read it."""
    import pyarrow as pa

    if pa.types.is_null(stored) and declared in _NOT_OF_NULLS:
        return 'Leave the column out of the file and set missing_columns="null" at the source'
    is_nested = pa.types.is_nested(stored)
    if is_nested != (declared in ("struct", "array", "map")) and not pa.types.is_null(stored):
        return "Declare the column as it is stored"
    if pa.types.is_timestamp(stored) and stored.unit == "ns" and declared in ("timestamp", "timestamp_ntz"):
        return None if column.is_int96() else _MICROSECONDS
    bits = _BITS.get(declared)
    if bits is None or not pa.types.is_integer(stored):
        return None
    unsigned = pa.types.is_unsigned_integer(stored)
    if stored.bit_width + unsigned <= bits:
        return None
    if bits < 32 and stored.bit_width <= 32 - unsigned:  # Spark truncates these
        found = column.range()
        if found is not None and -(1 << (bits - 1)) <= found[0] and found[1] < 1 << (bits - 1):
            return None
    return f"Declare the column as {_HOLDS[str(stored)]}"


@dataclass(frozen=True, slots=True)
class _Column:
    """The entry of a footer for a column that is not nested."""

    found: "pq.FileMetaData"
    name: str

    def is_int96(self) -> bool:
        """Whether it has timestamps as Spark writes them, which Arrow shows as nanoseconds."""
        return bool(self.found.schema.column(self._place()).physical_type == "INT96")

    def range(self) -> tuple[int, int] | None:
        """Return the smallest and the largest integer; None if unknown, zeros if there are no values."""
        place, bounds = self._place(), [0]
        for group in range(self.found.num_row_groups):
            column = self.found.row_group(group).column(place)
            statistics = column.statistics if column.is_stats_set else None
            if statistics is None or not (statistics.has_min_max or statistics.num_values == 0):
                return None
            bounds += [statistics.min, statistics.max] if statistics.has_min_max else []
        return min(bounds), max(bounds)

    def _place(self) -> int:
        schema = self.found.schema
        return next(at for at in range(self.found.num_columns) if schema.column(at).path == self.name)


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()
