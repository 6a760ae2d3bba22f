"""Turns the files of a source into rows.

Text files are decoded and divided into records by our own Spark tasks (`reading.py`), because Spark replaces bytes that
it cannot decode and reads a CSV dialect of its own. Spark then parses each record (`text_rows.py`). Parquet files are
left to `parquet_frames.py`. `files.py` decides which files are read.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.sources.allowed import aliases_of, allowed_of
from tidegate.sources.dialect import text_format
from tidegate.sources.json_names import names_of, with_aliases
from tidegate.sources.json_texts import floats_of, places_of
from tidegate.sources.listing import FileVersion
from tidegate.sources.parquet_footers import Expected, Footers
from tidegate.sources.parquet_frames import parquet_frame, require_readable
from tidegate.sources.parts import packed
from tidegate.sources.reading import COLUMNS, ReadPlan
from tidegate.sources.selection import PartitionColumn
from tidegate.sources.text_rows import text_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidegate.sources.files import FileSource

MALFORMED = "file STRING, record STRING, reason STRING"  # the columns of the quarantine


def frame(
    source: "FileSource",
    spark: "SparkSession",
    location: str,
    files: Sequence[FileVersion],
    output: str,
    partitions: Sequence[PartitionColumn],
    footers: Footers,
) -> "DataFrame":
    """Return a lazy DataFrame over exactly these files: `rows` in the source's schema, followed by the `partitions`, or
    `malformed` as `MALFORMED`.

    Raise `PipelineDefinitionError` if the schema is not Spark DDL or has a column of the partitions,
    `MalformedRowsError` for an impossible file name, or for a Parquet file whose footer does not fit.
    """
    from pyspark.errors import ParseException

    try:
        return _frame(source, spark, location, files, output, partitions, footers)
    except ParseException as error:
        raise PipelineDefinitionError(
            f"The schema of the source of {location!r} is not Spark DDL: {source.file_schema!r}. {error}"
        ) from error


def _frame(
    source: "FileSource",
    spark: "SparkSession",
    location: str,
    files: Sequence[FileVersion],
    output: str,
    partitions: Sequence[PartitionColumn],
    footers: Footers,
) -> "DataFrame":
    from pyspark.sql import functions as F

    schema = struct_of(source.file_schema)
    names = {name.lower() for name in schema.names}
    if both := [column.name for column in partitions if column.name.lower() in names]:
        raise PipelineDefinitionError(
            f"The source of {location!r} has {', '.join(both)} both in its schema and in its partitions. Values from "
            "names of directories are not in the files: leave the column out of the schema."
        )
    if output not in ("rows", "malformed") or (output == "malformed" and source.malformed != "quarantine"):
        raise PipelineDefinitionError(f"The source of {location!r} has no output {output!r}.")
    if source.format == "parquet":
        require_readable(source, spark, location)
    if not files:
        for column in partitions:
            schema = schema.add(column.name, column.type.lower())
        wanted = schema if output == "rows" else struct_of(MALFORMED)
        # `createDataFrame` imports pandas. Without the limit the optimiser does not know that the frame is empty.
        return spark.range(1).select([F.lit(None).cast(each.dataType).alias(each.name) for each in wanted]).limit(0)
    tasks = int(cast(str, spark.conf.get("spark.sql.shuffle.partitions")))
    if source.format == "parquet":
        expected = expected_columns(source, schema, spark.conf.get("spark.sql.caseSensitive") == "true")
        return parquet_frame(source, spark, location, files, expected, partitions, footers, tasks)
    floats = floats_of(schema) if source.parsing == "strict" else None
    keys = with_aliases(names_of(schema), aliases_of(source))
    form = text_format(source, tuple(schema.names), places_of(schema), keys, floats)
    bins = packed(files, form, tasks)
    records = spark.range(0, len(bins), 1, len(bins)).mapInArrow(ReadPlan(location, bins, form).run, COLUMNS)
    return text_rows(source, schema, records, location, output, partitions)


def struct_of(ddl: str) -> "StructType":
    """Return the columns that a DDL text declares."""
    from pyspark.sql.types import StructType

    return cast("StructType", StructType.fromDDL(ddl))  # declared as any type: the text may be that of one


def expected_columns(source: "FileSource", schema: "StructType", exact: bool = False) -> Expected:
    """Return the columns that Parquet files of a source must have."""
    return Expected(schema, allowed_of(source), aliases_of(source), exact)
