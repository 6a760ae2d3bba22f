"""Judges rows by one suite with Great Expectations: a Spark DataFrame, of classic and Connect sessions alike, or files.

Decides which work Great Expectations is asked to do, and returns for every expectation what was found. `validator`
makes a verdict of it. Great Expectations is imported inside functions, because that takes seconds.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.pipeline.expectations import Expectation, ExpectationSuite
from tidegate.ports import ArrowRows
from tidegate.protocol.text.lost_spark import lost_error, says_gone
from tidegate.quality import arrow_pass, one_pass
from tidegate.quality.arrow_pass import Prepared, good_results, prepare
from tidegate.quality.failing import failing_rows
from tidegate.quality.importing import load_great_expectations
from tidegate.quality.one_pass import validate_at_once
from tidegate.quality.public_way import validate_publicly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAMPLES = 20
_SAMPLED = {"partial_unexpected_list", "partial_unexpected_index_list", "partial_unexpected_counts"}
_SPARK_ERROR = re.compile(r"(\[[A-Z][A-Z0-9_.]+\] .*)")
_JAVA_ERROR = re.compile(r".*\b(?:\w+\.)+(\w+(?:Exception|Error): .*)")


class ExpectationError(ValueError):
    """An expectation of a suite is unknown to Great Expectations, or its arguments are wrong."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What Great Expectations says about one expectation. `raw` is its result, to be rendered in a report.

    `success` None: it could not be judged, and `message` says why. `found` has Great Expectations' own keys.
    """

    expectation: Expectation
    success: bool | None
    found: Mapping[str, Any]
    raw: Any
    message: str | None = None
    failing: tuple[str, ...] = ()  # rows that fail a rule that holds, by digests


def build(suite: ExpectationSuite) -> list[Any]:
    """The suite's expectations as Great Expectations' objects. Raises `ExpectationError`, before any data is read."""
    load_great_expectations()
    from great_expectations.exceptions.exceptions import ExpectationNotFoundError
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    built = []
    for position, expectation in enumerate(suite.expectations):
        try:
            configuration = ExpectationConfiguration(
                type=expectation.type, kwargs=dict(expectation.kwargs), meta={"position": position}
            )
            built.append(configuration.to_domain_obj())
        except ExpectationNotFoundError as error:
            raise ExpectationError(
                f"{expectation.type} is not an expectation Great Expectations knows; is it misspelt, or a custom one "
                "whose module is not imported by the pipeline?"
            ) from error
        except (ValueError, TypeError) as error:
            raise ExpectationError(f"{expectation.type} has wrong arguments: {_arguments(error)}.") from error
    return built


def judge(
    frame: "DataFrame",
    suite: ExpectationSuite,
    built: Sequence[Any],
    shown: Sequence[str],
    reported: int | None,
    told_apart: int = 0,
) -> tuple[list[Finding], int]:
    """What was found for each expectation, in the suite's order, and how many rows there are. `shown` are the columns
    that identify failing rows. `reported` is how many rows there should be, None if nobody knows: then it takes a Spark
    job more to count them. `told_apart`: of how many failing rows digests are wanted."""
    result_format = _result_format(shown, max(SAMPLES, told_apart))
    if not one_pass.SHORTCUT.is_taken():
        results, rows = validate_publicly(frame, built, result_format)
        return _findings(suite, _by_position(results), told_apart), rows
    results, rows = validate_at_once(frame, built, result_format, reported)
    if reported not in (None, rows):
        return judge(frame, suite, built, shown, None, told_apart)
    return _findings(suite, _by_position(results), told_apart), rows


def prepare_suite(suite: ExpectationSuite, shown: Sequence[str]) -> Prepared | None:
    """What `judge_here` needs of a suite, to be kept; None if Spark judges all rows. Raises `ExpectationError`."""
    built = build(suite)
    return prepare(built, _result_format(shown)) if arrow_pass.SHORTCUT.is_taken() else None


def judge_here(staged: ArrowRows, suite: ExpectationSuite, prepared: Prepared) -> tuple[list[Finding], int] | None:
    """As `judge`, without Spark; None if Spark has to judge the rows: see `arrow_pass`."""
    good = good_results(staged, prepared)
    return None if good is None else (_findings(suite, good[0]), good[1])


def _result_format(shown: Sequence[str], most: int = SAMPLES) -> dict[str, Any]:
    result_format: dict[str, Any] = {"result_format": "SUMMARY", "partial_unexpected_count": most}
    return result_format | ({"unexpected_index_column_names": list(shown)} if shown else {})


def _findings(suite: ExpectationSuite, results: Mapping[int, Any], told_apart: int = 0) -> list[Finding]:
    return [
        _finding(expectation, results.get(index), told_apart) for index, expectation in enumerate(suite.expectations)
    ]


def _by_position(results: Sequence[Any]) -> dict[int, Any]:
    """By position in the suite, because Great Expectations returns them in an order of its own."""
    return {result.expectation_config.meta["position"]: result for result in results}


def _finding(expectation: Expectation, result: Any, told_apart: int) -> Finding:
    if result is None:
        return Finding(expectation, None, {}, None, "Great Expectations returned no result for it")
    message = _raised(result.exception_info)
    found, success = result.result or {}, None if message else bool(result.success)
    wanted = told_apart and expectation.hold_for is not None and success is False
    failing = failing_rows(found, told_apart) if wanted else ()
    for name in _SAMPLED & found.keys():
        found[name] = found[name][:SAMPLES]
    return Finding(expectation, success, found, result, message, failing)


def _raised(info: Mapping[str, Any]) -> str | None:
    """The message of the exception in a result. A result has one, or one for each metric it needed (in no order).

    Metrics computed together share the message of the last that failed. The last by name is the metric of the sampled
    values, if there are any; these are computed alone. Raises `SparkUnavailableError` if Spark is away.
    """
    if "raised_exception" not in info:
        info = info[max(info)] if info else {}
    if not info.get("raised_exception"):
        return None
    said = str(info.get("exception_message"))
    if says_gone(said):
        raise lost_error(said, "data was judged")
    return headline(said)


def headline(message: str) -> str:
    """What went wrong, in one line of at most 300 characters, of an error that may carry a query plan and stack traces.

    Spark names its errors in brackets, Java by a class, sometimes long after "An error occurred while calling …".
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()] or ["no message"]
    for pattern in (_SPARK_ERROR, _JAVA_ERROR):
        if found := next(filter(None, map(pattern.search, lines)), None):
            lines = [found[1]]
            break
    first = lines[0].rstrip(".;")
    return first if len(first) <= 300 else f"{first[:300]}…"


def _arguments(error: Exception) -> str:
    """A pydantic error, one clause for each argument. Its own text has several lines."""
    if not hasattr(error, "errors"):
        return headline(str(error))
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
