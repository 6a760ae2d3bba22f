"""Writes rows at their final place: Parquet files with numbered columns, a file for each partition.

Runs on executors. Readers see a file once a snapshot of the table has it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tidegate.iceberg.columns import Numbering, id_of
from tidegate.iceberg.partitions import PartitionBy, split
from tidegate.ports import StageContext
from tidegate.protocol.facts.errors import SinkError
from tidegate.protocol.facts.records import StateHandle
from tidegate.sinks import staging

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.state.hashing_file import HashingFile

#: Details of a handle: the partition spec, the file's values in it, and the last column that the table had when the
#: file was written.
SPEC, PARTITION, LAST = "spec", "partition", "last_column"


@dataclass(frozen=True)
class KnownTable:
    """A table as it is now: its columns with their numbers, the number of the newest one, the number of the partition
    spec, and for each field of that the number of its column and the transform of its values."""

    columns: "pa.Schema"
    last: int
    spec: int
    partition_by: Sequence[tuple[int, str]]


@dataclass(frozen=True)
class IcebergWriter:
    """See `ports.SinkWriter`. Without a `table`, there is none yet, and it is made with `partition_by`."""

    root: str
    folder: str
    stage_empty: bool
    table: KnownTable | None
    partition_by: Sequence[PartitionBy] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)

    def stage(self, rows: "pa.Table", context: StageContext) -> list[StateHandle]:
        """See `ports.SinkWriter`. Raise `StorageError`, `SinkError`."""
        if rows.num_rows == 0 and not self.stage_empty:
            return []
        # pyarrow is heavy and this module is imported when Airflow parses a DAG.
        import pyarrow as pa

        last, spec = (0, 0) if self.table is None else (self.table.last, self.table.spec)
        try:
            numbered = Numbering(last, self.renamed).schema(rows.schema, self.table and self.table.columns)
            taken = rows.cast(numbered)
            fields = self._fields(numbered)
            parts = split(taken, fields) or [([None] * len(fields), taken)]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise SinkError(
                f"Rows of checkpoint {context.checkpoint_id} do not fit their columns below {self.root}: {error}. "
                "Nothing became visible. Change the values in a transform, then run again."
            ) from error
        found = []
        for number, (values, part) in enumerate(parts):
            details = {LAST: last, SPEC: spec, PARTITION: values}
            file = partial(write, part), part.num_rows
            found.append(staging.stage(self.root, *file, context, self.folder, f"-{number:05d}", details))
        return found

    def _fields(self, columns: "pa.Schema") -> list[PartitionBy]:
        """Return the partition fields of the rows, with the names of the columns in the rows."""
        if self.table is None:
            return list(self.partition_by)
        names = {id_of(column): column.name for column in columns}
        return [PartitionBy(names[column], transform) for column, transform in self.table.partition_by]


def write(rows: "pa.Table", file: "HashingFile") -> None:
    """Write the rows as Parquet, as pyiceberg does."""
    import pyarrow.parquet as pq

    pq.write_table(rows, file, compression="zstd", coerce_timestamps="us", store_schema=False)
