"""Validation of staged rows without Spark, where all rows are good and Arrow counts as Great Expectations does on
Spark.

Great Expectations decides which metrics an expectation needs, and interprets their values. Only the values are computed
here, with Arrow in this process: a Spark job over a few megabytes takes longer than reading them. Spark takes over in
every doubtful case: a metric, type or argument that is not listed here, a row that fails, a verdict that is not good.
So no verdict ever fails because of a value computed here, and no samples are taken here.

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
    "validation",
    "great_expectations",
    (
        *(f"{_EXPECTATION}.{name}" for name in ("_build_evr", "_validate")),
        *(f"{_EXPECTATION}.{name}" for name in ("get_validation_dependencies", "metrics_validate")),
        "great_expectations.execution_engine.sparkdf_execution_engine:SparkDFExecutionEngine",
    ),
    "all staged rows are validated on Spark",
)

_UNEXPECTED = ".unexpected_count"
#: The metrics that Great Expectations computes on Spark about failing rows, with their values if no row fails.
_OF_NONE: Mapping[str, Any] = {"unexpected_values": [], "unexpected_index_list": [], "unexpected_index_query": None}
#: The only arguments that may select the rows of a metric.
_COLUMN, _COLUMNS = "column", "column_list"
_IGNORED = {"ignore_row_if": "all_values_are_missing"}  # has no effect where no value is missing


@dataclass(frozen=True, slots=True)
class PreparedExpectation:
    """An expectation, the metrics that it needs, by their names, and the `result_format` that it completes."""

    expectation: Any
    metrics: Mapping[str, Any]
    result_format: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Prepared:
    """The expectations of a suite, and the `columns` that they name."""

    expectations: tuple[PreparedExpectation, ...]
    columns: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Rows:
    """A `pyarrow.Table` of the named columns, and the `names` of all columns. `names` is None if Great Expectations
    writes names on Spark differently: with quotes, or with the fields of a column."""

    columns: "pa.Table"
    names: tuple[str, ...] | None


def prepare(built: Sequence[Any], result_format: Mapping[str, Any]) -> Prepared:
    """Find the metrics of the expectations. Keep the result: this takes longer than the validation itself."""
    prepared = []
    for expectation in built:
        runtime = {"result_format": dict(result_format)}
        needed = expectation.get_validation_dependencies(execution_engine=_engine(), runtime_configuration=runtime)
        prepared.append(PreparedExpectation(expectation, dict(needed.metric_configurations), needed.result_format))
    domains = [metric.metric_domain_kwargs for item in prepared for metric in item.metrics.values()]
    named = [name for domain in domains for name in (domain.get(_COLUMN), *(domain.get(_COLUMNS) or ()))]
    return Prepared(tuple(prepared), frozenset(name for name in named if name is not None))


def good_results(staged: ArrowRows, prepared: Prepared) -> tuple[dict[int, Any], int] | None:
    """Return Great Expectations' results by position in the suite, and the number of rows; None if Spark must
    validate."""
    import pyarrow as pa

    try:
        rows = _read(staged, prepared.columns)
        results = [_good_result(rows, expectation) for expectation in prepared.expectations]
        return dict(enumerate(results)), rows.columns.num_rows
    except (LeftToSparkError, pa.ArrowException, OSError, ArithmeticError, LookupError, TypeError, ValueError):
        return None


def _read(staged: ArrowRows, columns: frozenset[str]) -> _Rows:
    """Read the named columns. Leave names to Spark that it may resolve differently: in another case, or as a field of a
    column."""
    names = staged.schema.names
    lower = [name.lower() for name in names]
    for name in columns:
        if name not in names or lower.count(name.lower()) > 1 or "." in name or "`" in name:
            raise LeftToSparkError(name)
    rows = staged.to_table(sorted(columns))
    if rows.num_rows == 0:  # Spark's sums over nothing are null
        raise LeftToSparkError("no rows")
    is_plain = not any("." in name or "`" in name for name in names)
    has_fields = any(field.type.num_fields for field in staged.schema)
    return _Rows(rows, tuple(names) if is_plain and not has_fields else None)


def _good_result(rows: _Rows, prepared: PreparedExpectation) -> Any:
    """Return the result of `Expectation.metrics_validate`, without the search for metrics that takes most of its time.
    Raise `LeftToSparkError` unless the expectation is met."""
    from great_expectations.expectations.expectation import Expectation

    expectation = prepared.expectation
    if type(expectation).metrics_validate is not Expectation.metrics_validate:
        raise LeftToSparkError(expectation.expectation_type)
    values = {name: _value(rows, metric, prepared.metrics) for name, metric in prepared.metrics.items()}
    runtime = {"result_format": dict(prepared.result_format)}
    response = expectation._validate(metrics=values, runtime_configuration=runtime, execution_engine=_engine())
    result = expectation._build_evr(raw_response=response)
    if result.success is not True:
        raise LeftToSparkError(expectation.expectation_type)
    return result


def _value(rows: _Rows, metric: Any, needed: Mapping[str, Any]) -> Any:
    """Return the value of a metric. Raise `LeftToSparkError` if Spark might find another one."""
    domain = {name: value for name, value in metric.metric_domain_kwargs.items() if value is not None}
    given = {name: value for name, value in metric.metric_value_kwargs.items() if value is not None}
    name = metric.metric_name
    base, _, kind = name.rpartition(".")
    if kind in _OF_NONE:
        if _value(rows, needed[f"{base}{_UNEXPECTED}"], needed) != 0:
            raise LeftToSparkError(name)
        return _OF_NONE[kind]
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
    """Return 0 if no value is repeated. Spark counts repeated ones."""
    import pyarrow.compute as pc

    if not _is_comparable(column.type):
        raise LeftToSparkError(str(column.type))
    if pc.count_distinct(column, mode="only_valid").as_py() != _filled(column):
        raise LeftToSparkError("repeated values")
    return 0


def _repeated_together(rows: "pa.Table") -> int:
    """Return 0 if no combination of values is repeated and no value is null."""
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
    """Return the column if its values become the same Python objects, in the same order, by Spark and by Arrow."""
    import pyarrow as pa

    if not (pa.types.is_signed_integer(column.type) or pa.types.is_date32(column.type)):
        raise LeftToSparkError(str(column.type))
    return column


def _is_comparable(kind: "pa.DataType") -> bool:
    """Return whether Arrow and Spark agree on the equality of values. Doubles have two zeros."""
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
    """Return how many numbers are outside the bounds. Spark compares whole numbers with a double as doubles."""
    import pyarrow as pa
    import pyarrow.compute as pc

    bounds = [bound for bound in (min_value, max_value) if bound is not None]
    kinds, whole = {type(bound) for bound in bounds}, pa.types.is_signed_integer(column.type)
    if kinds not in ({int}, {float}) or not bounds[0] <= bounds[-1]:
        raise LeftToSparkError(f"between {bounds}")
    if not (whole or pa.types.is_float64(column.type) or pa.types.is_float32(column.type)):
        raise LeftToSparkError(str(column.type))
    if not whole and pc.any(pc.is_nan(column)).as_py():
        raise LeftToSparkError("NaN")  # to Spark alone larger than any number
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
    is_member = pc.is_in(column.cast(kind), value_set=pa.array(value_set, kind))
    return _filled(column) - int(pc.sum(is_member, min_count=0).as_py())


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
    """Return the engine that Great Expectations chooses metrics and the form of results by. It never computes
    anything."""
    load_great_expectations()
    from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine

    return SparkDFExecutionEngine(spark=object(), persist=False)
