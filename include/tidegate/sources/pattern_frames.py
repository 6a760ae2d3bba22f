"""Files whose columns depend on their names, as one DataFrame of the source's rows."""

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from tidegate.sources import parsing
from tidegate.sources.drift import NamedFiles, by_names
from tidegate.sources.listing import FileVersion
from tidegate.sources.parquet_footers import Footers
from tidegate.sources.selection import PartitionColumn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidegate.sources.files import FileSource


def frame_of_all(
    source: "FileSource",
    spark: "SparkSession",
    named: Sequence[NamedFiles],
    files: Sequence[FileVersion],
    output: str,
    partitions: Sequence[PartitionColumn],
    footers: Footers,
) -> "DataFrame":
    """Return `parsing.frame` of all files, each read by the schema for its name."""
    frames = []
    for entry, own in by_names(named, files) if named and files else [(None, list(files))]:
        if entry is None:
            frames.append(parsing.frame(source, spark, source.location, own, output, partitions, footers))
            continue
        rows = parsing.frame(entry.source, spark, source.location, own, output, partitions, entry.footers)
        frames.append(_in_columns(rows, entry, source, partitions) if output == "rows" else rows)
    return reduce(lambda left, right: left.union(right), frames)


def _in_columns(
    rows: "DataFrame", named: NamedFiles, source: "FileSource", partitions: Sequence[PartitionColumn]
) -> "DataFrame":
    """Return rows in the source's columns, with null where the files have no such column."""
    from pyspark.sql import functions as F

    schema: StructType = parsing.struct_of(source.file_schema)
    there = {name: rows[_quoted(called)] for name, called in named.columns.items()}
    columns = [there.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in schema]
    return rows.select(*columns, *(rows[_quoted(column.name)] for column in partitions))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
