"""Reads Parquet files inside Spark tasks with Arrow alone, if Spark has no file system for their place.

The rows are those that Spark would read. A column is converted if no value can change. Data that Arrow cannot read as
Spark does is an error. Runs on executors, which need only pyarrow.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.protocol.facts.errors import MalformedRowsError
from tidegate.sources.allowed import Aliases
from tidegate.sources.parquet_reading import ROWS, is_of_one_calendar
from tidegate.sources.parts import Part, parts_of
from tidegate.sources.read_errors import AS_BEFORE, carried, of_other_type, unreadable, vanished

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pafs
    import pyarrow.parquet as pq

#: The column with the relative path of a row's file, behind those of the schema.
FILE = "_tidegate_file"

_VERSION, _OLD_CALENDAR = (
    b"org.apache.spark.version",
    (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"),
)


@dataclass(frozen=True, slots=True)
class ParquetPlan:
    """Reads files by `mapInArrow` over a range, where each id is a bin of files below `location`. For `exact`, see
    `parquet_footers.Expected`. `advice` tells the user how Spark can read them itself."""

    location: str
    bins: Sequence[tuple[Part, ...]]
    schema: "pa.Schema"
    exact: bool
    advice: str
    aliases: Aliases = field(default_factory=dict)

    def run(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for filesystem, root, part in parts_of(self.location, self.bins, batches):
            yield from self._rows(filesystem, root, part.path)

    def _rows(self, filesystem: "pafs.FileSystem", root: str, path: str) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        from pyarrow import parquet

        name = f"{self.location}/{path}"
        with carried(name):
            try:
                with filesystem.open_input_file(f"{root}/{path}") as stream:
                    file = parquet.ParquetFile(stream, coerce_int96_timestamp_unit="us")
                    yield from self._batches(file, path, name)
            except FileNotFoundError as error:
                raise vanished(name) from error
            except (OSError, pa.ArrowException) as error:
                raise unreadable(name, error) from error

    def _batches(self, file: "pq.ParquetFile", path: str, name: str) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        found = self._found(file.schema_arrow)
        self._require_types(file, found, name)
        # Arrow takes a dot in a name for the way into a struct, and a file without any of the columns still has rows.
        columns = (
            None if any("." in each for each in found.values()) else list(found.values()) or file.schema_arrow.names[:1]
        )
        old = _is_of_old_calendar(file.metadata.metadata or {})
        for batch in file.iter_batches(ROWS, columns=columns, use_threads=False):
            arrays = {each: batch.column(there) for each, there in found.items()}
            if old and not all(map(is_of_one_calendar, arrays.values())):
                raise MalformedRowsError(
                    f"{name} has dates of the calendar of Spark 2, from before 1582, or times from before 1900, which "
                    f"only Spark converts. {AS_BEFORE}{self.advice} Or write the file again, then run again."
                )
            files = pa.repeat(pa.scalar(path), batch.num_rows)
            yield pa.RecordBatch.from_arrays(
                [*(_column(arrays.get(each.name), each.type, batch.num_rows) for each in self.schema), files],
                names=[*self.schema.names, FILE],
            )

    def _found(self, stored: "pa.Schema") -> dict[str, str]:
        """Return the columns of the schema that the file has, with the file's names for them."""
        alike = str if self.exact else str.lower
        there = {alike(self.aliases.get(name.lower(), name)): name for name in stored.names}
        return {name: there[alike(name)] for name in self.schema.names if alike(name) in there}

    def _require_types(self, file: "pq.ParquetFile", found: Mapping[str, str], name: str) -> None:
        int96 = {
            file.schema.column(at).path
            for at in range(len(file.schema))
            if file.schema.column(at).physical_type == "INT96"
        }
        for column, there in found.items():
            stored, wanted = file.schema_arrow.field(there).type, self.schema.field(column).type
            if not is_read_as(stored, wanted) or (there in int96 and getattr(wanted, "tz", None) is None):
                raise of_other_type(name, column, str(stored), str(wanted), "Declare the column as it is stored")


def is_read_as(stored: "pa.DataType", wanted: "pa.DataType") -> bool:
    """Whether Spark reads a column stored in one type as the other, without changing a value. `parquet_footers` has
    compared the sizes of integers."""
    import pyarrow.types as of

    if stored == wanted or of.is_null(stored):
        return True
    if of.is_dictionary(stored):
        return is_read_as(stored.value_type, wanted)
    if of.is_struct(wanted):
        inner = {each.name: each.type for each in stored} if of.is_struct(stored) else {}
        return bool(inner) and all(is_read_as(inner.get(each.name, each.type), each.type) for each in wanted)
    if of.is_map(wanted):
        pairs = [(stored.key_type, wanted.key_type), (stored.item_type, wanted.item_type)] if of.is_map(stored) else []
        return bool(pairs) and all(is_read_as(*pair) for pair in pairs)
    if of.is_list(wanted):
        is_list = of.is_list(stored) or of.is_large_list(stored) or of.is_fixed_size_list(stored)
        return is_list and is_read_as(stored.value_type, wanted.value_type)
    return _is_widened(stored, wanted)


def _is_widened(stored: "pa.DataType", wanted: "pa.DataType") -> bool:
    import pyarrow.types as of

    if of.is_string(wanted) or of.is_binary(wanted):
        text = of.is_string(stored) or of.is_large_string(stored)
        return bool(text or of.is_binary(stored) or of.is_large_binary(stored) or of.is_fixed_size_binary(stored))
    if of.is_decimal(wanted):
        digits = wanted.precision - wanted.scale
        if of.is_integer(stored):
            return bool(digits >= (10 if stored.bit_width <= 32 else 20))
        fits = of.is_decimal(stored) and wanted.scale >= stored.scale
        return bool(fits and digits >= stored.precision - stored.scale)
    if of.is_timestamp(wanted):
        if of.is_timestamp(stored):  # an instant is no time of a clock
            return bool(wanted.tz is not None or stored.tz is None)
        return bool(of.is_date32(stored) and wanted.tz is None)
    if of.is_integer(stored):
        return bool(of.is_integer(wanted) or (of.is_float64(wanted) and stored.bit_width <= 32))
    return bool(of.is_float32(stored) and of.is_float64(wanted))


def _column(found: "pa.Array | None", wanted: "pa.DataType", rows: int) -> "pa.Array":
    import pyarrow as pa

    if found is None or pa.types.is_null(found.type):
        return pa.nulls(rows, wanted)
    return found if found.type == wanted else found.cast(wanted)


def _is_of_old_calendar(properties: Mapping[bytes, bytes]) -> bool:
    """Whether the footer names Spark with the calendar of its version 2 as the file's writer."""
    version = properties.get(_VERSION, b"").split(b".")[0]
    return (version.isdigit() and int(version) < 3) or any(key in properties for key in _OLD_CALENDAR)
