"""The columns of an operator's state: their names and types, and whether stored state still fits them.

`type_names.py` has the types, `accumulators.py` computes accumulators, and `runs.py` lays rows out in files.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import pyarrow as pa

from tidegate.pipeline.aggregates import SKETCHES, VERSION, Aggregate
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.schema.expiry import UPDATED, Expired, TimeToLive
from tidegate.protocol.schema.state_schema import BOUNDS, StateColumn, StateSchema
from tidegate.state.sketch_library import require_library
from tidegate.state.type_names import has_text, is_number, list_of, plain_type, type_name, type_of
from tidegate.state.values import stored_default

HASH = "_hash"
TOMBSTONE = "_tombstone"
DELETE = "_delete"
RESERVED = (HASH, TOMBSTONE, DELETE)

#: The visible types of aggregates whose accumulators have other types.
_SHOWN = {
    "avg": pa.float64(),
    "count_distinct": pa.int64(),
    "approx_count_distinct": pa.int64(),
    "approx_percentile": pa.float64(),
    "approx_percentiles": list_of(pa.float64()),
    "approx_top_k": list_of(pa.struct([("item", pa.string()), ("count", pa.int64())])),
}
_UPDATED_TYPE = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of state. `type` is an Arrow type of one of Spark's atomic types, or a list of one."""

    name: str
    type: pa.DataType

    @property
    def sql(self) -> str:
        return type_name(self.type)


@dataclass(frozen=True)
class StateLayout:
    """The columns of a row of state: `keys`, then `values` (accumulators if there are `aggregates`).

    `defaults`, by value column, are the values in rows that are older than the column. `version` counts the changes
    since the state began, and `ids` are those of columns whose id is not their name: see
    `protocol.schema.state_schema`. With a `ttl` by processing time, the last of `values` is the time of a row's last
    change. `expired` rows of older runs stay expired, whatever the present time to live. The bounds of `sessions` are
    key columns that the hash of a row does not depend on.
    """

    keys: tuple[Column, ...]
    values: tuple[Column, ...]
    aggregates: tuple[tuple[str, Aggregate], ...] = ()
    defaults: tuple[tuple[str, Any], ...] = ()
    version: int = 0
    ids: tuple[tuple[str, str], ...] = ()
    ttl: TimeToLive | None = None
    expired: tuple[Expired, ...] = ()
    sessions: bool = False

    @classmethod
    def of_rows(cls, schema: pa.Schema, key: Sequence[str], defaults: Mapping[str, Any] | None = None) -> "StateLayout":
        """Return the layout for a user function: the `pyarrow.Schema` of its rows, key columns included.

        Raise `PipelineDefinitionError` on a missing key column, a reserved or duplicate name, an unusable type, or a
        default that does not fit.
        """
        columns = [Column(field.name, plain_type(field.name, field.type)) for field in schema]
        values = tuple(c for c in columns if c.name not in key)
        types = {column.name: column.type for column in values}
        if missing := sorted(set(defaults or ()) - set(types)):
            raise PipelineDefinitionError(
                f"There is no column {', '.join(map(repr, missing))} for a default. Apart from the key there are "
                f"{', '.join(types) or 'none'}."
            )
        kept = tuple((name, stored_default(name, types[name], value)) for name, value in (defaults or {}).items())
        return cls(_picked(columns, key), values, defaults=kept).checked()

    @classmethod
    def of_aggregates(
        cls, schema: pa.Schema, key: Sequence[str], aggregates: Sequence[tuple[str, Aggregate]]
    ) -> "StateLayout":
        """Return the layout of declared aggregates over input rows of a `pyarrow.Schema`. Raise as `of_rows` does."""
        needed = {*key, *(name for _, aggregate in aggregates for name in aggregate.columns())}
        if missing := sorted(needed - set(schema.names)):
            raise PipelineDefinitionError(_no_column(missing, schema.names))
        columns = [Column(field.name, plain_type(field.name, field.type)) for field in schema if field.name in needed]
        values: list[Column] = []
        for name, aggregate in aggregates:
            inputs = [column.type for column in _picked(columns, aggregate.columns())]
            values += _accumulators(name, aggregate, inputs)
        counted = {name for name, aggregate in aggregates if aggregate.function in ("count", VERSION)}
        counted |= {f"_count_{name}" for name, aggregate in aggregates if aggregate.function == "avg"}
        defaults = tuple((column.name, 0) for column in values if column.name in counted)
        return cls(_picked(columns, key), tuple(values), tuple(aggregates), defaults).checked()

    def checked(self) -> "StateLayout":
        names = [column.name for column in (*self.keys, *self.values)]
        wrong = sorted({name for name in names if name in RESERVED or names.count(name) > 1})
        if wrong:
            raise PipelineDefinitionError(
                f"State columns cannot be called {', '.join(wrong)}: names must be distinct, and {', '.join(RESERVED)} "
                "are reserved."
            )
        return self

    def living(self, ttl: TimeToLive | None) -> "StateLayout":
        """Return the layout for rows that expire. Raise `PipelineDefinitionError` for a column that holds no times."""
        if ttl is None:
            return self
        if ttl.processing_time:
            return replace(self, values=(*self.values, Column(UPDATED, _UPDATED_TYPE)), ttl=ttl).checked()
        types = {column.name: column.type for column in (*self.keys, *self.values)}
        if ttl.column not in self.rows.names or ttl.column not in types:
            raise PipelineDefinitionError(_no_column([ttl.column], self.rows.names))
        if not (pa.types.is_timestamp(types[ttl.column]) or pa.types.is_date32(types[ttl.column])):
            raise PipelineDefinitionError(
                f"Rows are to expire by {ttl.column!r}, which is {type_name(types[ttl.column])}. Let ttl_by name a "
                "timestamp or a date, or leave it out for the time of a row's last change."
            )
        return replace(self, ttl=ttl)

    @property
    def hashed(self) -> tuple[Column, ...]:
        """The key columns that a row's hash is computed from."""
        return tuple(column for column in self.keys if column.name not in BOUNDS) if self.sessions else self.keys

    @property
    def keeps_updated(self) -> bool:
        """Whether a column holds the time of a row's last change."""
        return self.ttl is not None and self.ttl.processing_time

    @property
    def declared_values(self) -> tuple[Column, ...]:
        """The values without that column."""
        return self.values[:-1] if self.keeps_updated else self.values

    @cached_property
    def declared(self) -> pa.Schema:
        """The `pyarrow.Schema` of a stored row without that column, which a user's function returns."""
        return pa.schema([(column.name, column.type) for column in (*self.keys, *self.declared_values)])

    @cached_property
    def key_names(self) -> list[str]:
        return [column.name for column in self.keys]

    @cached_property
    def stored(self) -> pa.Schema:
        """The `pyarrow.Schema` of a row in a run, without hash and tombstone."""
        return pa.schema([(column.name, column.type) for column in (*self.keys, *self.values)])

    @cached_property
    def rows(self) -> pa.Schema:
        """The `pyarrow.Schema` of a visible row: key columns, then one column per aggregate or the values."""
        if not self.aggregates:
            return self.declared
        types = {column.name: column.type for column in self.values}
        shown = [(name, types.get(name, _SHOWN.get(declared.function))) for name, declared in self.aggregates]
        return pa.schema([(column.name, column.type) for column in self.keys] + shown)

    def accumulators_of(self, name: str) -> list[str]:
        return list(dict(self.aggregates)[name].accumulators(name))

    @cached_property
    def key_schema(self) -> pa.Schema:
        return pa.schema([(column.name, column.type) for column in self.keys])

    @cached_property
    def fingerprint(self) -> str:
        """A hash that is equal for layouts whose runs can be read together, whatever the order of value columns."""
        layout = self.to_json()
        layout["values"] = sorted(layout["values"])
        layout["aggregates"] = sorted(layout["aggregates"])
        return sha256(json.dumps(layout, sort_keys=True).encode()).hexdigest()[:16]

    @cached_property
    def schema(self) -> StateSchema:
        """The schema that `protocol.schema.state_schema` compares."""
        ids, defaults = dict(self.ids), dict(self.defaults)
        keys, values = (
            tuple(StateColumn(c.name, c.sql, ids.get(c.name, c.name), defaults.get(c.name)) for c in columns)
            for columns in (self.keys, self.values)
        )
        aggregates = tuple(aggregate.in_state(name) for name, aggregate in self.aggregates)
        return StateSchema(keys, values, aggregates, self.version, self.ttl, self.sessions)

    def beginning(self, at: int) -> "StateLayout":
        """Return the layout in which rows older than the column for their last change count as changed `at` this
        time."""
        return replace(self, defaults=(*self.defaults, (UPDATED, at))) if self.keeps_updated else self

    def succeeding(self, schema: StateSchema, expired: Sequence[Expired] = ()) -> "StateLayout":
        """Return these columns with the ids, defaults and version of `schema`, which has the same columns."""
        columns = [*schema.keys, *(schema.values or ())]
        ids = tuple((c.name, c.id) for c in columns if c.id != c.name)
        defaults = tuple((c.name, c.default) for c in columns if c.default is not None)
        return replace(self, version=schema.version, ids=ids, defaults=defaults, expired=tuple(expired))

    def to_json(self) -> dict[str, Any]:
        """Return the layout as JSON. Before the first change no row is older than a column, so ids and defaults are
        left out."""
        changed = {"version": self.version, "ids": dict(self.ids), "defaults": dict(self.defaults)}
        return {
            "keys": [[column.name, column.sql] for column in self.keys],
            "values": [[column.name, column.sql] for column in self.values],
            "aggregates": [
                [name, a.function, a.column or "", a.ordering or "", *([dict(a.options)] if a.options else [])]
                for name, a in self.aggregates
            ],
            **(changed if self.version else {}),
            **({"ttl": [self.ttl.column, self.ttl.after, self.ttl.processing_time]} if self.ttl else {}),
            **({"expired": [rule.to_json() for rule in self.expired]} if self.expired else {}),
            **({"sessions": True} if self.sessions else {}),
        }

    @classmethod
    def from_json(cls, layout: Mapping[str, Any]) -> "StateLayout":
        return cls(
            tuple(Column(name, type_of(sql)) for name, sql in layout["keys"]),
            tuple(Column(name, type_of(sql)) for name, sql in layout["values"]),
            tuple((name, _aggregate(*declared)) for name, *declared in layout["aggregates"]),
            tuple(layout.get("defaults", {}).items()),
            layout.get("version", 0),
            tuple(layout.get("ids", {}).items()),
            TimeToLive(*layout["ttl"]) if "ttl" in layout else None,
            tuple(Expired(*rule) for rule in layout.get("expired", ())),
            layout.get("sessions", False),
        )

    def differences(self, stored: "StateLayout") -> list[str]:
        """Return the differences of `stored` state from this definition, one sentence per column; empty if it can be
        read."""
        sentences = []
        if [c.name for c in self.keys] != [c.name for c in stored.keys]:
            sentences.append(f"the key is stored as ({_listed(stored.keys)}) and now defined as ({_listed(self.keys)})")
        old = {c.name: c.sql for c in (*stored.keys, *stored.values)}
        new = {c.name: c.sql for c in (*self.keys, *self.values)}
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                sentences.append(
                    f"column {name!r} is stored as {old.get(name, 'absent')}, now {new.get(name, 'absent')}"
                )
        before, after = dict(stored.aggregates), dict(self.aggregates)
        if stored.ttl != self.ttl:
            sentences.append(f"rows are stored to expire {stored.ttl or 'never'}, now {self.ttl or 'never'}")
        for name in sorted(before.keys() & after.keys()):
            if before[name] != after[name]:
                sentences.append(f"aggregate {name!r} is stored as {_sql(before[name])}, now {_sql(after[name])}")
        return sentences


def _picked(columns: Sequence[Column], names: Sequence[str]) -> tuple[Column, ...]:
    by_name = {column.name: column for column in columns}
    missing = [name for name in names if name not in by_name]
    if missing:
        raise PipelineDefinitionError(_no_column(missing, list(by_name)))
    return tuple(by_name[name] for name in names)


def _no_column(missing: Sequence[str], names: Sequence[str]) -> str:
    return f"There is no column {', '.join(map(repr, missing))}; the rows have {', '.join(names)}."


def _accumulators(name: str, aggregate: Aggregate, inputs: Sequence[pa.DataType]) -> list[Column]:
    """Return the columns of state for one aggregate. The types follow Spark's (see `tidegate.pipeline.aggregates`)."""
    match aggregate.function:
        case "count" | "version":
            types = [pa.int64()]
        case "sum":
            types = [_sum_type(name, aggregate, inputs[0], exact=True)]
        case "avg":
            types = [_sum_type(name, aggregate, inputs[0], exact=False), pa.int64()]
        case "min" | "max" | "min_by" | "max_by":
            types = list(inputs)
        case "count_distinct" | "collect_list":
            types = [_list_type(name, aggregate, kind) for kind in inputs]
        case function if function in SKETCHES:
            types = [_sketch_type(name, aggregate, inputs[0])]
        case _:
            raise PipelineDefinitionError(f"Aggregate {name!r} has the unknown function {aggregate.function!r}.")
    return [Column(part, kind) for part, kind in zip(aggregate.accumulators(name), types, strict=True)]


def _sketch_type(name: str, aggregate: Aggregate, column: pa.DataType) -> pa.DataType:
    require_library()
    problem = f"Aggregate {name!r} is {_sql(aggregate)}, but {aggregate.column!r} is {type_name(column)}."
    if aggregate.function.startswith("approx_percentile") and not is_number(column):
        raise PipelineDefinitionError(f"{problem} A percentile needs a number.")
    if aggregate.function == "approx_top_k" and not has_text(column):
        raise PipelineDefinitionError(
            f"{problem} Items are counted by their text: cast it to string, or to an integer."
        )
    return pa.binary()


def _list_type(name: str, aggregate: Aggregate, column: pa.DataType) -> pa.DataType:
    if pa.types.is_null(column):
        raise PipelineDefinitionError(
            f"Aggregate {name!r} is {_sql(aggregate)}, but {aggregate.column!r} has no type, because it is always "
            "null. Cast it to one."
        )
    return list_of(column)


def _sum_type(name: str, aggregate: Aggregate, column: pa.DataType, exact: bool) -> pa.DataType:
    if pa.types.is_decimal128(column):
        return pa.decimal128(min(38, column.precision + 10), column.scale)
    if pa.types.is_integer(column):
        return pa.int64() if exact else pa.float64()
    if pa.types.is_floating(column):
        return pa.float64()
    raise PipelineDefinitionError(
        f"Aggregate {name!r} is {_sql(aggregate)}, but {aggregate.column!r} is {type_name(column)}. Sum and average "
        "need a number."
    )


def _listed(columns: Sequence[Column]) -> str:
    return ", ".join(f"{column.name} {column.sql}" for column in columns)


def _sql(aggregate: Aggregate) -> str:
    return str(aggregate.in_state("_"))


def _aggregate(function: str, column: str, by: str, options: Mapping[str, Any] | None = None) -> Aggregate:
    given = tuple((name, tuple(x) if isinstance(x, list) else x) for name, x in (options or {}).items())
    return Aggregate(function, column or None, by or None, given)
