"""Parquet files of a source as a DataFrame. Spark reads them, or Arrow does inside of Spark tasks if Spark has no file
system for their place. Which of the two it is, is known before there is a file.
"""

from collections.abc import Sequence
from inspect import signature
from typing import TYPE_CHECKING

from tidegate.protocol.facts.errors import MalformedRowsError, PipelineDefinitionError
from tidegate.settings import spark_path
from tidegate.settings.spark_schemes import advice, reaches, scheme_of
from tidegate.sources.links import place_of
from tidegate.sources.listing import FileVersion
from tidegate.sources.parquet_by_arrow import FILE, ParquetPlan
from tidegate.sources.parquet_footers import Expected, Footers
from tidegate.sources.parts import packed
from tidegate.sources.selection import PartitionColumn

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidegate.sources.files import FileSource

# Either every row of exactly the given files is read, or an error is raised.
_STRICT = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}


def require_readable(source: "FileSource", spark: "SparkSession", location: str) -> None:
    """Raise `PipelineDefinitionError` if the source has options for Spark's reader, which cannot read there."""
    if source.options and not reaches(spark, location):
        raise PipelineDefinitionError(
            f"The source of {location!r} has options of Spark's reader for Parquet ({', '.join(source.options)}), and "
            f"Spark has no file system for {scheme_of(location)}://. Arrow reads such files without it, but has no "
            f"such options. Nothing was read. Leave out the options. {advice(location)}"
        )


def parquet_frame(
    source: "FileSource",
    spark: "SparkSession",
    location: str,
    files: Sequence[FileVersion],
    expected: Expected,
    partitions: Sequence[PartitionColumn],
    footers: Footers,
    tasks: int,
) -> "DataFrame":
    """Return the rows of some files, followed by the `partitions`. Raise `MalformedRowsError` if a footer does not
    fit."""
    if reaches(spark, location):
        return _by_spark(source, spark, location, files, expected, partitions, footers)
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    footers.check(location, files, expected)
    bins, schema = packed(files, None, tasks), expected.schema
    plan = ParquetPlan(location, bins, arrow_schema(schema), expected.exact, advice(location), expected.aliases)
    columns = T.StructType([*schema.fields, T.StructField(FILE, T.StringType())])
    rows = spark.range(0, len(bins), 1, len(bins)).mapInArrow(plan.run, columns)
    given = [rows[f"`{name.replace('`', '``')}`"] for name in schema.names]
    return rows.select(*given, *(column.of(F.col(FILE)) for column in partitions))


def _by_spark(
    source: "FileSource",
    spark: "SparkSession",
    location: str,
    files: Sequence[FileVersion],
    expected: Expected,
    partitions: Sequence[PartitionColumn],
    footers: Footers,
) -> "DataFrame":
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    reader = spark.read.format("parquet").options(**_STRICT).options(**source.options)
    paths = [_spark_path(location, file.path) for file in files]
    footers.check(location, files, expected, lambda path: reader.load(_spark_path(location, path)).columns)
    if not expected.aliases:
        rows = reader.schema(source.file_schema).load(paths)
        given: list[Column | str] = ["*"]
    else:  # a file has a column under one of its names, and null under the others
        called = {field.name: [field.name, *source.aliases.get(field.name, ())] for field in expected.schema}
        fields = [T.StructField(name, field.dataType) for field in expected.schema for name in called[field.name]]
        rows = reader.schema(T.StructType(fields)).load(paths)
        given = [F.coalesce(*map(_named, names)).alias(column) for column, names in called.items()]
    path = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
    return rows.select(*given, *(column.of(path) for column in partitions)) if partitions or expected.aliases else rows


def _named(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def arrow_schema(columns: "StructType") -> "pa.Schema":
    """Return the columns in the types in which Spark passes them to Python."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(columns, timezone="UTC")
    return to_arrow_schema(columns)  # Spark 4.1 has no other zone


def _spark_path(location: str, path: str) -> str:
    if ":" in path.rpartition("/")[2]:
        raise MalformedRowsError(
            f"{location}/{path} has a colon in its name, and Spark cannot open such files (Hadoop's paths forbid it). "
            "This checkpoint has no effect. Rename the file, for instance with a dash, and run again."
        )
    return spark_path(place_of(location, path))
