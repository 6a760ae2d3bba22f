"""The inputs of a verdict other than the validated files, so that a verdict on the same files can carry over.

A target is *steady* if the same files get the same verdict at any time and place. A check never is, because its query
may read anything. Neither is state whose rows expire, nor a suite with an expectation that might depend on a clock,
another table or chance. A target that is not known to be steady counts as not steady.
"""

import json
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version

from tidegate.pipeline.expectations import Expectation, ExpectationSuite
from tidegate.pipeline.fingerprint import facts_of
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex
from tidegate.protocol.facts.names import Target, TargetKind
from tidegate.protocol.facts.records import HandleKind
from tidegate.protocol.steps.carried_verdicts import ValidationTarget

#: Expectations that depend on the rows alone, and not on their order. A user's own expectations are not among them.
_STEADY = frozenset(
    f"expect_{name}"
    for name in (
        "column_distinct_values_to_be_in_set",
        "column_distinct_values_to_contain_set",
        "column_distinct_values_to_equal_set",
        "column_max_to_be_between",
        "column_mean_to_be_between",
        "column_median_to_be_between",
        "column_min_to_be_between",
        "column_pair_values_a_to_be_greater_than_b",
        "column_pair_values_to_be_equal",
        "column_pair_values_to_be_in_set",
        "column_proportion_of_non_null_values_to_be_between",
        "column_proportion_of_unique_values_to_be_between",
        "column_quantile_values_to_be_between",
        "column_stdev_to_be_between",
        "column_sum_to_be_between",
        "column_to_exist",
        "column_unique_value_count_to_be_between",
        "column_value_lengths_to_be_between",
        "column_value_lengths_to_equal",
        "column_value_z_scores_to_be_less_than",
        "column_values_to_be_between",
        "column_values_to_be_in_set",
        "column_values_to_be_in_type_list",
        "column_values_to_be_json_parseable",
        "column_values_to_be_null",
        "column_values_to_be_of_type",
        "column_values_to_be_unique",
        "column_values_to_match_json_schema",
        "column_values_to_match_regex",
        "column_values_to_match_regex_list",
        "column_values_to_match_strftime_format",
        "column_values_to_not_be_in_set",
        "column_values_to_not_be_null",
        "column_values_to_not_match_regex",
        "column_values_to_not_match_regex_list",
        "compound_columns_to_be_unique",
        "multicolumn_sum_to_equal",
        "multicolumn_values_to_be_unique",
        "select_column_values_to_be_unique_within_record",
        "table_column_count_to_be_between",
        "table_column_count_to_equal",
        "table_columns_to_match_ordered_list",
        "table_columns_to_match_set",
        "table_row_count_to_be_between",
        "table_row_count_to_equal",
    )
)


class _NotSteadyError(ValueError):
    pass


def validation_targets(graph: Graph) -> tuple[ValidationTarget, ...]:
    """Return the subject of each target's verdict, in the order of `graph.targets`."""
    return tuple(_validation_target(graph, target, suite) for target, suite in graph.suites.items())


def _validation_target(graph: Graph, target: Target, suite: ExpectationSuite) -> ValidationTarget:
    if target.kind is TargetKind.CHECK:
        check = next(check for check in graph.checks if check.name == target.name)
        operators = tuple(graph.sink(name).operator_id for name in check.sinks)
        return ValidationTarget(target, suite.name, operators, HandleKind.STAGED, None)
    vertex: SinkVertex | KeyedVertex
    if target.kind is TargetKind.SINK:
        vertex, kind = graph.sink(target.name), HandleKind.STAGED
    else:
        vertex, kind = next(vertex for vertex in graph.keyed if vertex.name == target.name), HandleKind.RUN
    return ValidationTarget(target, suite.name, (vertex.operator_id,), kind, _definition(vertex, suite))


def _definition(vertex: SinkVertex | KeyedVertex, suite: ExpectationSuite) -> str | None:
    """Return a digest of the validated rows' definition and of the suite; None if they are not steady."""
    if isinstance(vertex, KeyedVertex) and vertex.ttl is not None:
        return None
    try:
        rules = [_rule(expectation) for expectation in suite.expectations]
        defaults = _exact(dict(vertex.defaults)) if isinstance(vertex, KeyedVertex) else None
    except _NotSteadyError:
        return None
    facts = [facts_of(vertex), defaults, suite.name, rules, _validator_version()]
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _rule(expectation: Expectation) -> list[object]:
    given = dict(expectation.kwargs)
    if expectation.type not in _STEADY or "row_condition" in given:  # a condition may refer to the time
        raise _NotSteadyError(expectation.type)
    return [expectation.type, _exact(given)]


def _exact(value: object) -> list[object]:
    """Return a value as JSON, different for different values. Raise `_NotSteadyError` for a value of unknown type."""
    match value:
        case None | bool() | int() | float() | str() | bytes() | Decimal() | datetime() | date():
            return [type(value).__name__, repr(value)]
        case list() | tuple():
            return [type(value).__name__, [_exact(item) for item in value]]
        case Mapping() if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return ["dict", {key: _exact(item) for key, item in value.items()}]  # $PARAMETER may stand for the time
    raise _NotSteadyError(type(value).__name__)


@cache
def _validator_version() -> str:
    """Return the version of Great Expectations: another one may give an expectation another meaning."""
    try:
        return version("great-expectations")
    except PackageNotFoundError:
        return ""
