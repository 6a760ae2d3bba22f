"""The result of a user's function over state, checked against the operator's declaration: columns, types, and
determinism."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidegate.pipeline.update import Update
from tidegate.pipeline.vertices import KeyedVertex
from tidegate.protocol.facts.errors import CheckpointError, PipelineDefinitionError
from tidegate.spark.driver.columns import arrow_schema, require_plain_text
from tidegate.spark.driver.hashing import key_expressions, quoted
from tidegate.spark.driver.joins import joined
from tidegate.spark.driver.returned import kind_of, raised, require_frame
from tidegate.spark.driver.spark_errors import error_of_function
from tidegate.spark.driver.streams import Streams
from tidegate.spark.driver.tables import kept, versions
from tidegate.spark.executor.given_keys import GIVEN
from tidegate.state.layout import DELETE, HASH, StateLayout
from tidegate.state.type_names import stored_type, type_name


@dataclass(frozen=True, slots=True)
class Result:
    """The rows to upsert, with their keys' hashes, and the rows to emit, if the operator emits any."""

    upserts: DataFrame
    emitted: DataFrame | None


def require_keys(streams: Streams, vertex: KeyedVertex, layout: StateLayout, batches: Sequence[DataFrame]) -> None:
    """Raise `PipelineDefinitionError` for a batch that lacks a column of the key, or has it in another type."""
    where = streams.where(vertex)
    for batch in batches:
        streams.require_columns(where, vertex.key, batch.columns)
        keys = batch.select(*map(quoted, vertex.key))
        require_plain_text(where, keys.schema.fields)
        require_types(f"A batch of {where}", keys, layout)


def result_of(
    streams: Streams,
    vertex: KeyedVertex,
    layout: StateLayout,
    batches: Sequence[DataFrame],
    state: DataFrame,
    small: bool = False,
) -> Result:
    """Return the result of the operator's function for batches and state, which are `small` if one Spark task may take
    all.

    Raise `PipelineDefinitionError`, which names the operator and the expected result.
    """
    returned = _returned(streams, vertex, [*batches, state], small)
    state, rows = _parts(streams.where(vertex), vertex, returned)
    upserts = _upserts(streams.where(vertex), layout, state)
    streams.require_deterministic(f"The result of the function of {streams.where(vertex)}", upserts)
    if not vertex.emits:
        return Result(upserts, None)
    emitted = _emitted(streams.where(vertex), streams.output(vertex), rows)
    streams.require_deterministic(f"The output of the function of {streams.where(vertex)}", emitted)
    return Result(upserts, emitted)


def with_given(upserts: DataFrame, keys: DataFrame) -> DataFrame:
    """Return the rows to upsert, and a marker row for each of the batches' `keys`: see `executor.given_keys`."""
    markers = [F.col(HASH) if f.name == HASH else F.lit(None).cast(f.dataType).alias(f.name) for f in upserts.schema]
    return upserts.withColumn(GIVEN, F.lit(False)).unionAll(keys.select(*markers, F.lit(True).alias(GIVEN)))


def _returned(streams: Streams, vertex: KeyedVertex, frames: Sequence[DataFrame], small: bool) -> DataFrame | Update:
    if vertex.table is not None:
        columns = streams.table_columns(vertex)
        return versions(columns, *frames) if vertex.table.versions else kept(columns, frames[0])
    if vertex.join is not None:
        left, right, state = frames
        return joined(streams.join_columns(vertex), left, right, state, small)
    assert vertex.update is not None
    try:
        return vertex.update(*frames)
    except CheckpointError:
        raise
    except Exception as error:
        where = streams.where(vertex)
        message = f"The function of {where} raised {raised(error)}. Nothing was written. Correct the function."
        raise error_of_function(error, where, message) from error


def _parts(where: str, vertex: KeyedVertex, returned: Any) -> tuple[Any, Any]:  # Any: the result of a user's function
    if vertex.emits and not isinstance(returned, Update):
        raise PipelineDefinitionError(
            f"The function of {where} returned {kind_of(returned)}, not an Update. It declares the output "
            f"{vertex.output!r}, so let it return Update(state=rows to upsert, rows=rows to emit). Nothing was written."
        )
    if isinstance(returned, Update) and not vertex.emits:
        raise PipelineDefinitionError(
            f"The function of {where} returned an Update, but the operator declares no output, so its rows would be "
            "lost. Declare their columns with keyed(…, output='…'), or return the rows of state alone. Nothing was "
            "written."
        )
    state, rows = (returned.state, returned.rows) if isinstance(returned, Update) else (returned, None)
    if vertex.emits:
        require_frame(f"The function of {where}, in the state of its Update,", state)
        require_frame(f"The function of {where}, in the rows of its Update,", rows)
    else:
        require_frame(f"The function of {where}", state)
    return state, rows


def _upserts(where: str, layout: StateLayout, result: DataFrame) -> DataFrame:
    expected, there = [field.name for field in layout.rows], result.columns
    missing, extra = _different(expected, [name for name in there if name != DELETE])
    if missing or extra or len(set(there)) != len(there):
        raise PipelineDefinitionError(
            f"The function of {where} returned the columns {', '.join(there)}. Its state has "
            f"{', '.join(expected)}: missing {', '.join(missing) or 'none'}, not in the state "
            f"{', '.join(extra) or 'none'}. Return exactly these, and optionally a boolean {DELETE}."
        )
    require_types(f"The function of {where} returned rows whose", result, layout)
    values = [f"cast({quoted(c.name)} as {c.sql}) as {quoted(c.name)}" for c in layout.declared_values]
    delete = [f"coalesce({DELETE}, false) as {DELETE}"] if DELETE in there else []
    return result.selectExpr(*key_expressions(layout), *values, *delete)


def _emitted(where: str, declared: StructType, rows: DataFrame) -> DataFrame:
    """Return the rows in the declared columns, in their order."""
    found = rows.schema
    there = found.names
    missing, extra = _different(declared.names, there)
    if missing or extra or len(there) != len(declared.names):
        raise PipelineDefinitionError(
            f"The function of {where} emits rows with the columns {', '.join(there) or 'none'}. Its output has "
            f"{', '.join(declared.names)}: missing {', '.join(missing) or 'none'}, not in the output "
            f"{', '.join(extra) or 'none'}. Let Update(rows=…) have exactly these. Nothing was written."
        )
    types = {field.name: field.dataType.simpleString() for field in declared.fields}
    wrong = [
        f"{field.name} is {field.dataType.simpleString()}, not {types[field.name]}"
        for field in found.fields
        if not _fits(field.dataType.simpleString(), types[field.name])
    ]
    if wrong:
        raise PipelineDefinitionError(
            f"The function of {where} emits rows whose columns have other types than its output declares: "
            f"{'; '.join(wrong)}. Cast them, or change the declared output. Nothing was written."
        )
    return rows.select(*(rows[quoted(f.name)].cast(f.dataType).alias(f.name) for f in declared.fields))


def _different(expected: Sequence[str], there: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the missing names, and those that should not be there."""
    return [name for name in expected if name not in there], [name for name in there if name not in expected]


#: Types that Spark may widen without loss, each to any later one.
_WIDENINGS = (["tinyint", "smallint", "int", "bigint"], ["float", "double"])


def require_types(what: str, frame: DataFrame, layout: StateLayout) -> None:
    """Raise `PipelineDefinitionError` unless every column of the state has its declared type, or one that fits into
    it."""
    declared = {column.name: column.sql for column in (*layout.keys, *layout.declared_values)}
    there = {
        field.name: type_name(stored_type(field.name, arrow_schema(StructType([field])).field(0).type))
        for field in frame.schema.fields
        if field.name in declared
    }
    wrong = [
        f"{name} is {there[name]}, not {declared[name]}" for name in there if not _fits(there[name], declared[name])
    ]
    if wrong:
        raise PipelineDefinitionError(
            f"{what} columns have other types than the state declares: {'; '.join(wrong)}. Cast them, or change the "
            "declared state."
        )


def _fits(actual: str, declared: str) -> bool:
    if actual == declared or actual == "void":
        return True
    return any(
        actual in order and declared in order and order.index(actual) < order.index(declared) for order in _WIDENINGS
    )
