"""Columns in the terms of Spark, of Arrow, and of a source's declaration."""

from collections.abc import Iterable
from inspect import signature
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.spark.driver.hashing import quoted
from tidegate.spark.executor.named_columns import NamedColumns, Run
from tidegate.state.type_names import type_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


#: The types that Arrow and Spark read alike, and hash alike. A string with a collation is another type.
_ALIKE = (
    T.BooleanType(),
    T.ByteType(),
    T.ShortType(),
    T.IntegerType(),
    T.LongType(),
    T.FloatType(),
    T.DoubleType(),
    T.StringType(),
    T.BinaryType(),
    T.DateType(),
    T.TimestampType(),
    T.TimestampNTZType(),
)


def are_alike(columns: T.StructType) -> bool:
    """Return whether every column is the same to Arrow and to Spark."""
    return all(field.dataType in _ALIKE or isinstance(field.dataType, T.DecimalType) for field in columns)


def declared(ddl: str) -> T.StructType | None:
    """Return the columns of a frame as its source declares them; None if only the frame knows. Text that is not DDL, or
    that has a name twice, is refused where it is read, and Spark converts some types."""
    try:
        columns = T.StructType.fromDDL(ddl)
    except Exception:  # the frame of such a source reports the mistake
        return None
    if not isinstance(columns, T.StructType) or not are_alike(columns):
        return None
    if len({name.lower() for name in columns.names}) < len(columns.names):
        return None
    return T.StructType([T.StructField(field.name, field.dataType) for field in columns])


def require_plain_text(where: str, columns: Iterable[T.StructField]) -> None:
    """Raise `PipelineDefinitionError` for text with a collation: state compares bytes, and Spark would not."""
    for field in columns:
        if isinstance(field.dataType, T.StringType) and field.dataType != T.StringType():
            raise PipelineDefinitionError(
                f"The {where} compares {field.name!r}, which is a {field.dataType.simpleString()}. Tidegate compares "
                "text by its bytes, so it would have other keys than Spark. Normalise it in a transform in front of "
                f"it, such as lower({field.name}), and cast it to string."
            )


def arrow_schema(schema: T.StructType) -> "pa.Schema":
    """Return the `pyarrow.Schema` in which rows of these columns reach a Spark task."""
    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # Spark 4.1 has no other zone


def map_in_arrow(rows: DataFrame, run: Run, schema: "StructType | str") -> DataFrame:
    """Call `DataFrame.mapInArrow`, with other names for columns that have a dot, which it would take for a field of a
    struct."""
    if not any(sign in name for name in rows.columns for sign in ".`"):
        return rows.mapInArrow(run, schema)
    numbered = rows.toDF(*(f"_{at}" for at in range(len(rows.columns))))
    return numbered.mapInArrow(NamedColumns(run, tuple(rows.columns)).run, schema)


def ddl(schema: "pa.Schema") -> str:
    """Return a `pyarrow.Schema` of state columns as Spark's DDL."""
    return ", ".join(f"{quoted(field.name)} {type_name(field.type)}" for field in schema)
