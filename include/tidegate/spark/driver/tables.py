"""The functions over state of declared tables: current rows, and versions of rows."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from tidegate.pipeline.tables import FROM, ORDER, TO, Table
from tidegate.pipeline.update import Update
from tidegate.ports.versioned_sources import CHANGE, DELETE, UPDATE, VALID_FROM
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.spark.driver.hashing import quoted
from tidegate.state.layout import DELETE as IS_DELETED


class TableColumns:
    """The columns of a table, given the columns of its input. Raise `PipelineDefinitionError`, in which `where` names
    the operator."""

    def __init__(self, where: str, table: Table, key: Sequence[str], changes: StructType) -> None:
        self.table, self.key = table, tuple(key)
        if missing := [name for name in (*key, CHANGE, table.order) if name not in changes.names]:
            raise PipelineDefinitionError(
                f"The {where} needs the columns {', '.join(missing)}, but its input has only "
                f"{', '.join(changes.names)}. Keep them in the transforms in front of it."
            )
        if table.versions and (both := [name for name in (FROM, TO) if name in map(str.lower, changes.names)]):
            raise PipelineDefinitionError(
                f"The {where} adds {', '.join(both)}, but its input has a column of that name. Rename it in a "
                "transform in front of it."
            )
        fields = [StructField(field.name, field.dataType) for field in changes.fields]
        self.state = StructType([f for f in fields if f.name not in (CHANGE, ORDER, VALID_FROM)])
        if not table.versions:
            return
        self.values = self.state.names
        self.output = StructType(
            [
                *self.state.fields,
                StructField(FROM, TimestampType()),
                StructField(TO, TimestampType()),
                *(StructField(name, kind) for name, kind in ((CHANGE, fields[-2].dataType), (ORDER, LongType()))),
            ]
        )
        self.state = StructType([*self.state.fields, StructField(FROM, TimestampType())])


def kept(columns: TableColumns, changes: DataFrame) -> DataFrame:
    """Return the rows to upsert, the last one of each key."""
    names = [name for name in columns.state.names if name not in columns.key]
    row = F.struct(*(F.col(quoted(name)) for name in (*names, CHANGE)))
    last = changes.groupBy(*map(quoted, columns.key)).agg(
        F.max_by(row, F.col(quoted(columns.table.order))).alias("row")
    )
    return last.select(
        *map(quoted, columns.key),
        *(F.col("row").getField(name).alias(name) for name in names),
        (F.col("row").getField(CHANGE) == DELETE).alias(IS_DELETED),
    )


def versions(columns: TableColumns, changes: DataFrame, state: DataFrame) -> Update:
    """Return the versions that begin or end, and the open version of each key."""
    names = list(map(quoted, columns.values))
    known = state.select(*names, F.col(FROM), F.lit(UPDATE).alias(CHANGE), F.lit(True).alias("known"))
    came = changes.select(*names, F.col(VALID_FROM).alias(FROM), F.col(CHANGE), F.lit(False).alias("known"))
    in_turn = Window.partitionBy(*map(quoted, columns.key)).orderBy(FROM)
    rows = known.unionAll(came).withColumn(TO, F.lead(FROM).over(in_turn))
    is_there, is_open = F.col(CHANGE) != DELETE, F.col(TO).isNull()
    emitted = rows.where(is_there & ~(F.col("known") & is_open))
    kept = rows.where(is_open & ~F.col("known"))
    return Update(
        state=kept.select(*names, FROM, (~is_there).alias(IS_DELETED)),
        rows=emitted.select(
            *names, FROM, TO, F.lit(UPDATE).alias(CHANGE), F.when(is_open, 0).otherwise(1).cast("bigint").alias(ORDER)
        ),
    )
