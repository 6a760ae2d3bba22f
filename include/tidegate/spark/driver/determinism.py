"""Determinism of a DataFrame: whether it has the same rows each time it is computed from the same input, and which
nodes its plan has.

Spark's analysis tells which expressions are not deterministic. It takes three things for deterministic that are not so
here, because each consumer and each retry is a query of its own: the time, which each query draws once; samples; and
operations that keep unspecified rows of many. Effects of Python outside Spark's plan are not detected.

A classic session returns its analyzed plan. A Spark Connect server explains a query that accepts the frame only if it
is deterministic: as the condition of a join.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from tidegate.spark.session.sessions import is_connect

#: Functions that each Spark query draws once.
_TIME = ("current_timestamp", "current_date", "current_time", "localtimestamp", "now")

#: A node at the beginning of a plan's line, after the lines of its tree. A limit of 0 has the same rows each time.
_NODE = re.compile(r"^[\s:|+-]*(Sample|GlobalLimit|LocalLimit|Offset|Tail)\b(?! 0$)", re.MULTILINE)
#: Any node but the first one.
_INNER = re.compile(r"^[ :]*[+:]- (\w+)")
_NODE_NAMES = {"Sample": "sample", "Offset": "offset", "Tail": "tail"}
_AGGREGATE = re.compile(r"^[\s:|+-]*Aggregate .*$", re.MULTILINE)

#: Nodes that turn each row into one at most, computed from that row alone.
_ROW_WISE = frozenset(("Project", "Filter", "SubqueryAlias", "View"))

#: Aggregates that keep one row of a group, whichever comes first.
_PICKS = ("first", "last", "any_value")

#: Functions that Spark marks as not deterministic.
_DRAWN = (
    *("rand", "randn", "random", "uuid", "shuffle", "randstr", "uniform", "monotonically_increasing_id"),
    *("spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length"),
    *("reflect", "try_reflect", "java_method"),
)


def nondeterministic_parts(frame: DataFrame) -> tuple[str, ...]:
    """Return the reasons why the rows differ between two computations, in the words of Spark's API; empty if they do
    not."""
    deterministic, plan = _plan_of(frame)
    parts = [f"{name}()" for name in _called(_TIME, plan)]
    parts += [_NODE_NAMES.get(node, "limit") for node in _NODE.findall(plan)]
    parts += [f"{name}() of a group" for line in _AGGREGATE.findall(plan) for name in _called(_PICKS, line)]
    if "Deduplicate [" in plan and _keeps_some_duplicate(frame):
        parts.append("dropDuplicates() on some of the columns")
    if not deterministic:
        drawn = [f"{name}()" for name in _called(_DRAWN, plan)]
        parts += drawn or ["a function that is marked as not deterministic"]
    return tuple(dict.fromkeys(parts))


def not_row_wise(before: DataFrame, after: DataFrame) -> list[str]:
    """Return the nodes of an analyzed plan that `after` has in addition to `before`, and that do not turn each row, by
    itself, into one row or none."""
    return [node for node in _nodes_of(after) - _nodes_of(before) if node not in _ROW_WISE]


def _nodes_of(frame: DataFrame) -> Counter[str]:
    """Count the nodes of a plan and of its subqueries, by Spark's names."""
    _, plan = _plan_of(frame)
    first, *others = plan.splitlines()
    return Counter([first.split()[0], *(match[1] for line in others if (match := _INNER.match(line)))])


def _plan_of(frame: DataFrame) -> tuple[bool, str]:
    return _explained(frame) if is_connect(frame.sparkSession) else _analyzed(frame)


def _called(names: Sequence[str], plan: str) -> Iterator[str]:
    """Yield the functions that a plan calls. A column may be named like a call, but its number follows its name."""
    for match in re.finditer(rf"\b({'|'.join(names)})\(", plan, re.IGNORECASE):
        end, depth = match.end(), 1
        while depth and end < len(plan):
            depth += {"(": 1, ")": -1}.get(plan[end], 0)
            end += 1
        if plan[end : end + 1] != "#":
            yield match[1].lower()


def _analyzed(frame: Any) -> tuple[bool, str]:
    # Spark abbreviates plans by the settings of the active session, and a new thread has none.
    session = frame.sparkSession
    session._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)
    plan = frame._jdf.queryExecution().analyzed()
    return plan.deterministic(), plan.toString()


def _explained(frame: Any) -> tuple[bool, str]:
    try:
        one = frame.sparkSession.range(1)
        return True, _analyzed_text(one.join(frame.sparkSession.range(1), frame.exists()))
    except AnalysisException as error:
        if error.getCondition() != "INVALID_NON_DETERMINISTIC_EXPRESSIONS":
            raise
        return False, _analyzed_text(frame)


def _analyzed_text(frame: Any) -> str:
    text: str = frame._explain_string(extended=True)
    analyzed = text.partition("== Analyzed Logical Plan ==\n")[2].partition("\n== Optimized Logical Plan ==")[0]
    return analyzed.partition("\n")[2]  # after the line with the columns


def _keeps_some_duplicate(frame: Any) -> bool:
    if is_connect(frame.sparkSession):
        plan = frame._plan.to_proto(frame.sparkSession.client)
        return any(not message.all_columns_as_keys for message in _messages(plan) if _is_deduplicate(message))
    nodes = _nodes(frame._jdf.queryExecution().analyzed())
    return any(
        node.keys().size() < node.child().output().size()
        for node in nodes
        if node.nodeName() in ("Deduplicate", "DeduplicateWithinWatermark")
    )


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for children in (plan.children(), plan.innerChildren()):
        for at in range(children.size()):
            yield from _nodes(children.apply(at))


def _is_deduplicate(message: Any) -> bool:
    return bool(message.DESCRIPTOR.name == "Deduplicate")


def _messages(message: Any) -> Iterator[Any]:
    """Yield a protobuf message and all messages within it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if field.is_repeated else [value]:
                if hasattr(item, "ListFields"):
                    yield from _messages(item)
