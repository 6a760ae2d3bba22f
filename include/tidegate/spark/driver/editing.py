"""Rows that replace or remove keys of an operator's state, checked against its columns."""

from pyspark.sql import DataFrame

from tidegate.protocol.facts.errors import SavepointEditError
from tidegate.protocol.schema.expiry import UPDATED
from tidegate.spark.driver.hashing import key_expressions, quoted
from tidegate.spark.driver.results import require_types
from tidegate.spark.driver.returned import is_frame, kind_of
from tidegate.state.layout import DELETE, Column, StateLayout


def checked_changes(where: str, layout: StateLayout, rows: DataFrame, removed: bool, at: int) -> DataFrame:
    """Return `_hash`, the stored columns of the state, and `_delete`, for rows given by a user, or for keys to remove
    if `removed`. All are changed `at` that time.

    Runs no Spark job. Raise `SavepointEditError`, and `PipelineDefinitionError` for types.
    """
    if not is_frame(rows):
        raise SavepointEditError(
            f"For {where}, {kind_of(rows)} was given instead of a Spark DataFrame. Nothing was written."
        )
    expected = layout.key_names if removed else layout.declared.names
    columns = rows.columns
    missing = [name for name in expected if name not in columns]
    extra = [name for name in columns if name not in expected]
    if missing or extra or len(set(columns)) != len(columns):
        what = "keys to remove have the columns" if removed else "rows have the columns"
        raise SavepointEditError(
            f"The {what} {', '.join(columns)}. The {'key' if removed else 'state'} of {where} has "
            f"{_listed(layout, expected)}: missing {', '.join(missing) or 'none'}, not in the state "
            f"{', '.join(extra) or 'none'}, each of them once. Nothing was written."
        )
    require_types(f"The rows given for {where} do not fit: their", rows, layout)
    values = [
        f"cast({'null' if removed else _given(layout, column)} as {column.sql}) as {quoted(column.name)}"
        for column in layout.declared_values
    ]
    values += [f"timestamp_micros({at}L) as {quoted(UPDATED)}"] if layout.keeps_updated else []
    checked: DataFrame = rows.selectExpr(*key_expressions(layout), *values, f"{str(removed).lower()} as {DELETE}")
    return checked


def _given(layout: StateLayout, column: Column) -> str:
    """Return the expression for a column. Lists of distinct values from a user may contain a value twice."""
    counts = (name for name, declared in layout.aggregates if declared.function == "count_distinct")
    if column.name in [part for name in counts for part in layout.accumulators_of(name)]:
        return f"array_distinct(array_compact({quoted(column.name)}))"
    return quoted(column.name)


def _listed(layout: StateLayout, names: list[str]) -> str:
    return ", ".join(
        f"{column.name} {column.sql}" for column in (*layout.keys, *layout.declared_values) if column.name in names
    )
