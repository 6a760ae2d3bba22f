"""Judges staged rows without Spark, where all is well and Arrow counts exactly as Great Expectations has Spark count.

Great Expectations says which metrics an expectation needs, and what their values mean. Only the values are computed
here, with Arrow in this process: a Spark job over a few megabytes takes longer than reading them. Every doubt is left
to Spark: a metric, a type or an argument that is not listed here, a row that is not as expected, a verdict that is not
good. So no verdict ever fails by what is counted here, and nothing here has to take samples.

Great Expectations and pyarrow are imported inside functions, because that takes seconds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from tidegate.ports import ArrowRows, LeftToSparkError
from tidegate.quality.importing import load_great_expectations
from tidegate.settings.shortcuts import Shortcut

if TYPE_CHECKING:
    import pyarrow as pa

_EXPECTATION = "great_expectations.expectations.expectation:Expectation"
SHORTCUT = Shortcut(
    "judging",
    "great_expectations",
    (
        *(f"{_EXPECTATION}.{name}" for name in ("_build_evr", "_validate")),
        *(f"{_EXPECTATION}.{name}" for name in ("get_validation_dependencies", "metrics_validate")),
        "great_expectations.execution_engine.sparkdf_execution_engine:SparkDFExecutionEngine",
    ),
    "all staged rows are judged on Spark",
)

_UNEXPECTED = ".unexpected_count"
#: What Great Expectations finds of the rows that are not as expected, on Spark, if there are none.
_OF_NONE: Mapping[str, Any] = {"unexpected_values": [], "unexpected_index_list": [], "unexpected_index_query": None}
#: Nothing else may be said of the rows that a metric is about.
_COLUMN, _COLUMNS = "column", "column_list"
_IGNORED = {"ignore_row_if": "all_values_are_missing"}  # which never are, where no value is missing


@dataclass(frozen=True, slots=True)
class Asked:
    """An expectation, the metrics that it needs, by their names, and the `result_format` that it completes."""

    expectation: Any
    metrics: Mapping[str, Any]
    result_format: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A suite's expectations; `columns` are those that they name."""

    asked: tuple[Asked, ...]
    columns: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Rows:
    """A `pyarrow.Table` of the columns that are named, and the `names` of all; None if Great Expectations writes those
    of Spark otherwise: with quotes, or with the fields of a column."""

    columns: "pa.Table"
    names: tuple[str, ...] | None


def prepare(built: Sequence[Any], result_format: Mapping[str, Any]) -> Prepared:
    """To be kept: Great Expectations takes longer to say what it needs than to judge it."""
    asked = []
    for expectation in built:
        runtime = {"result_format": dict(result_format)}
        needed = expectation.get_validation_dependencies(execution_engine=_engine(), runtime_configuration=runtime)
        asked.append(Asked(expectation, dict(needed.metric_configurations), needed.result_format))
    domains = [metric.metric_domain_kwargs for each in asked for metric in each.metrics.values()]
    named = [name for domain in domains for name in (domain.get(_COLUMN), *(domain.get(_COLUMNS) or ()))]
    return Prepared(tuple(asked), frozenset(name for name in named if name is not None))


def good_results(staged: ArrowRows, prepared: Prepared) -> tuple[dict[int, Any], int] | None:
    """Great Expectations' results by position in the suite, and how many rows there are; None if Spark has to judge."""
    import pyarrow as pa

    try:
        rows = _read(staged, prepared.columns)
        results = [_good_result(rows, asked) for asked in prepared.asked]
        return dict(enumerate(results)), rows.columns.num_rows
    except (LeftToSparkError, pa.ArrowException, OSError, ArithmeticError, LookupError, TypeError, ValueError):
        return None


def _read(staged: ArrowRows, columns: frozenset[str]) -> _Rows:
    """Spark finds a column in any case, and in a name with a dot a field of one."""
    names = staged.schema.names
    there = [name.lower() for name in names]
    for name in columns:
        if name not in names or there.count(name.lower()) > 1 or "." in name or "`" in name:
            raise LeftToSparkError(name)
    rows = staged.to_table(sorted(columns))
    if rows.num_rows == 0:  # Spark's sums over nothing are null
        raise LeftToSparkError("no rows")
    is_plain = not any("." in name or "`" in name for name in names)
    has_fields = any(field.type.num_fields for field in staged.schema)
    return _Rows(rows, tuple(names) if is_plain and not has_fields else None)


def _good_result(rows: _Rows, asked: Asked) -> Any:
    """What `Expectation.metrics_validate` returns, but for asking again what the expectation needs, which takes most of
    its time. Raises `LeftToSparkError` unless the expectation is met."""
    from great_expectations.expectations.expectation import Expectation

    expectation = asked.expectation
    if type(expectation).metrics_validate is not Expectation.metrics_validate:
        raise LeftToSparkError(expectation.expectation_type)
    values = {name: _value(rows, metric, asked.metrics) for name, metric in asked.metrics.items()}
    runtime = {"result_format": dict(asked.result_format)}
    found = expectation._validate(metrics=values, runtime_configuration=runtime, execution_engine=_engine())
    result = expectation._build_evr(raw_response=found)
    if result.success is not True:
        raise LeftToSparkError(expectation.expectation_type)
    return result


def _value(rows: _Rows, metric: Any, needed: Mapping[str, Any]) -> Any:
    """The value of a metric. Raises `LeftToSparkError` if Spark might find another one."""
    domain = {name: value for name, value in metric.metric_domain_kwargs.items() if value is not None}
    given = {name: value for name, value in metric.metric_value_kwargs.items() if value is not None}
    name = metric.metric_name
    of, _, what = name.rpartition(".")
    if what in _OF_NONE:
        if _value(rows, needed[f"{of}{_UNEXPECTED}"], needed) != 0:
            raise LeftToSparkError(name)
        return _OF_NONE[what]
    if name == "table.row_count" and not domain:
        return rows.columns.num_rows
    if name == "table.columns" and not domain and rows.names is not None:
        return list(rows.names)
    if name in _OF_COLUMN and set(domain) == {_COLUMN}:
        return _OF_COLUMN[name](rows.columns.column(domain[_COLUMN]), **given)
    if name in _OF_COLUMNS and domain == {_COLUMNS: domain.get(_COLUMNS), **_IGNORED}:
        return _OF_COLUMNS[name](rows.columns.select(domain[_COLUMNS]))
    raise LeftToSparkError(name)


def _nulls(column: "pa.ChunkedArray") -> int:
    return int(column.null_count)


def _filled(column: "pa.ChunkedArray") -> int:
    return len(column) - int(column.null_count)


def _repeated(column: "pa.ChunkedArray") -> int:
    """0 if every value is there once. How many are not, Spark says."""
    import pyarrow.compute as pc

    if not _is_comparable(column.type):
        raise LeftToSparkError(str(column.type))
    if pc.count_distinct(column, mode="only_valid").as_py() != _filled(column):
        raise LeftToSparkError("repeated values")
    return 0


def _repeated_together(rows: "pa.Table") -> int:
    """The same of several columns, none of whose values is null."""
    if not all(_is_comparable(column.type) and column.null_count == 0 for column in rows.columns):
        raise LeftToSparkError(str(rows.schema))
    if rows.group_by(rows.column_names).aggregate([]).num_rows != rows.num_rows:
        raise LeftToSparkError("repeated rows")
    return 0


def _complete_rows(rows: "pa.Table") -> int:
    if any(column.null_count for column in rows.columns):
        raise LeftToSparkError("null")
    return int(rows.num_rows)


def _smallest(column: "pa.ChunkedArray") -> object:
    import pyarrow.compute as pc

    return pc.min(_ordered(column)).as_py()


def _largest(column: "pa.ChunkedArray") -> object:
    import pyarrow.compute as pc

    return pc.max(_ordered(column)).as_py()


def _ordered(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """A column whose values are the same objects in Python, whoever reads them, in the same order."""
    import pyarrow as pa

    if not (pa.types.is_signed_integer(column.type) or pa.types.is_date32(column.type)):
        raise LeftToSparkError(str(column.type))
    return column


def _is_comparable(kind: "pa.DataType") -> bool:
    """Whether two values are equal to Arrow if, and only if, they are to Spark. Doubles have two zeros."""
    import pyarrow as pa

    types = pa.types
    return bool(types.is_signed_integer(kind) or types.is_string(kind) or types.is_date32(kind))


def _outside(
    column: "pa.ChunkedArray",
    min_value: Any = None,
    max_value: Any = None,
    strict_min: bool = False,
    strict_max: bool = False,
) -> int:
    """How many numbers are not between the bounds. Spark compares whole numbers with a double as doubles."""
    import pyarrow as pa
    import pyarrow.compute as pc

    bounds = [bound for bound in (min_value, max_value) if bound is not None]
    kinds, whole = {type(bound) for bound in bounds}, pa.types.is_signed_integer(column.type)
    if kinds not in ({int}, {float}) or not bounds[0] <= bounds[-1]:
        raise LeftToSparkError(f"between {bounds}")
    if not (whole or pa.types.is_float64(column.type) or pa.types.is_float32(column.type)):
        raise LeftToSparkError(str(column.type))
    if not whole and pc.any(pc.is_nan(column)).as_py():
        raise LeftToSparkError("NaN")  # larger than any number to Spark, and to nobody else
    kind = pa.int64() if whole and kinds == {int} else pa.float64()
    values = column.cast(kind, safe=False)
    inside = pa.scalar(True)
    if min_value is not None:
        compare = pc.greater if strict_min else pc.greater_equal
        inside = pc.and_(inside, compare(values, pa.scalar(min_value, kind)))
    if max_value is not None:
        compare = pc.less if strict_max else pc.less_equal
        inside = pc.and_(inside, compare(values, pa.scalar(max_value, kind)))
    return _filled(column) - int(pc.sum(inside, min_count=0).as_py())


def _not_in(column: "pa.ChunkedArray", value_set: Sequence[Any] = ()) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pa.types.is_string(column.type) and all(type(value) is str for value in value_set)
    whole = pa.types.is_signed_integer(column.type) and all(type(value) is int for value in value_set)
    if not value_set or not (texts or whole):
        raise LeftToSparkError(f"{column.type} in a set")
    kind = pa.string() if texts else pa.int64()
    found = pc.is_in(column.cast(kind), value_set=pa.array(value_set, kind))
    return _filled(column) - int(pc.sum(found, min_count=0).as_py())


_OF_COLUMN: Mapping[str, Callable[..., Any]] = {
    f"column_values.nonnull{_UNEXPECTED}": _nulls,
    f"column_values.null{_UNEXPECTED}": _filled,
    f"column_values.unique{_UNEXPECTED}": _repeated,
    f"column_values.between{_UNEXPECTED}": _outside,
    f"column_values.in_set{_UNEXPECTED}": _not_in,
    "column.min": _smallest,
    "column.max": _largest,
}
_OF_COLUMNS: Mapping[str, Callable[[Any], Any]] = {
    f"compound_columns.unique{_UNEXPECTED}": _repeated_together,
    "compound_columns.unique.filtered_row_count": _complete_rows,
}


@cache
def _engine() -> Any:
    """Who would compute the metrics, for Great Expectations: it needs other ones of other engines, and puts their
    results differently. This one is never asked for any."""
    load_great_expectations()
    from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine

    return SparkDFExecutionEngine(spark=object(), persist=False)
