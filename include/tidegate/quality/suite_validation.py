"""Validation of rows by one suite with Great Expectations: a Spark DataFrame, from classic or Connect sessions, or
files.

It decides which work Great Expectations does, and returns a finding for every expectation. `validator` turns the
findings into a verdict. Great Expectations is imported inside functions, because that takes seconds.
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
    """The result of one expectation. `raw` is Great Expectations' object, to be rendered in a report.

    `success` is None if the expectation could not be validated; `message` gives the reason. `found` has Great
    Expectations' own keys.
    """

    expectation: Expectation
    success: bool | None
    found: Mapping[str, Any]
    raw: Any
    message: str | None = None
    failing: tuple[str, ...] = ()  # digests of the rows that fail a rule with a hold


def build(suite: ExpectationSuite) -> list[Any]:
    """Return the suite's expectations as Great Expectations' objects. Raise `ExpectationError` before any data is
    read."""
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
                f"Great Expectations does not know {expectation.type}. Check its spelling; a custom expectation must "
                "be in a module that the pipeline imports."
            ) from error
        except (ValueError, TypeError) as error:
            raise ExpectationError(f"{expectation.type} has wrong arguments: {_arguments(error)}.") from error
    return built


def validate_frame(
    frame: "DataFrame",
    suite: ExpectationSuite,
    built: Sequence[Any],
    shown: Sequence[str],
    reported: int | None,
    identified: int = 0,
) -> tuple[list[Finding], int]:
    """Return a finding for each expectation, in the suite's order, and the number of rows.

    `shown` are the columns that identify failing rows. `reported` is the expected number of rows, None if it is
    unknown; counting them then takes another Spark job. `identified` is the maximum number of failing rows to return
    digests of.
    """
    result_format = _result_format(shown, max(SAMPLES, identified))
    if not one_pass.SHORTCUT.is_taken():
        results, rows = validate_publicly(frame, built, result_format)
        return _findings(suite, _by_position(results), identified), rows
    results, rows = validate_at_once(frame, built, result_format, reported)
    if reported not in (None, rows):
        return validate_frame(frame, suite, built, shown, None, identified)
    return _findings(suite, _by_position(results), identified), rows


def prepare_suite(suite: ExpectationSuite, shown: Sequence[str]) -> Prepared | None:
    """Return the metrics that `validate_arrow` needs for a suite, to be kept; None if Spark validates all rows. Raise
    `ExpectationError`."""
    built = build(suite)
    return prepare(built, _result_format(shown)) if arrow_pass.SHORTCUT.is_taken() else None


def validate_arrow(staged: ArrowRows, suite: ExpectationSuite, prepared: Prepared) -> tuple[list[Finding], int] | None:
    """Validate as `validate_frame` does, but without Spark; None if Spark must validate the rows (see `arrow_pass`)."""
    good = good_results(staged, prepared)
    return None if good is None else (_findings(suite, good[0]), good[1])


def _result_format(shown: Sequence[str], most: int = SAMPLES) -> dict[str, Any]:
    result_format: dict[str, Any] = {"result_format": "SUMMARY", "partial_unexpected_count": most}
    return result_format | ({"unexpected_index_column_names": list(shown)} if shown else {})


def _findings(suite: ExpectationSuite, results: Mapping[int, Any], identified: int = 0) -> list[Finding]:
    return [
        _finding(expectation, results.get(index), identified) for index, expectation in enumerate(suite.expectations)
    ]


def _by_position(results: Sequence[Any]) -> dict[int, Any]:
    """Return the results by position in the suite, because Great Expectations returns them in an order of its own."""
    return {result.expectation_config.meta["position"]: result for result in results}


def _finding(expectation: Expectation, result: Any, identified: int) -> Finding:
    if result is None:
        return Finding(expectation, None, {}, None, "Great Expectations returned no result for it")
    message = _raised(result.exception_info)
    found, success = result.result or {}, None if message else bool(result.success)
    wanted = identified and expectation.hold_for is not None and success is False
    failing = failing_rows(found, identified) if wanted else ()
    for name in _SAMPLED & found.keys():
        found[name] = found[name][:SAMPLES]
    return Finding(expectation, success, found, result, message, failing)


def _raised(info: Mapping[str, Any]) -> str | None:
    """Return the message of the exception in a result. A result has one, or one for each metric it needed (in no
    order).

    Metrics computed together share the message of the last failure. The last by name is the metric of the sampled
    values, if there are any; these are computed alone. Raise `SparkUnavailableError` if Spark is lost.
    """
    if "raised_exception" not in info:
        info = info[max(info)] if info else {}
    if not info.get("raised_exception"):
        return None
    message = str(info.get("exception_message"))
    if says_gone(message):
        raise lost_error(message, "data was validated")
    return headline(message)


def headline(message: str) -> str:
    """Return the cause in one line of at most 300 characters, from an error that may carry a query plan and stack
    traces.

    Spark names its errors in brackets. Java names them by a class, sometimes long after "An error occurred while
    calling …".
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()] or ["no message"]
    for pattern in (_SPARK_ERROR, _JAVA_ERROR):
        if match := next(filter(None, map(pattern.search, lines)), None):
            lines = [match[1]]
            break
    first = lines[0].rstrip(".;")
    return first if len(first) <= 300 else f"{first[:300]}…"


def _arguments(error: Exception) -> str:
    """Return a pydantic error in one line, a clause for each argument."""
    if not hasattr(error, "errors"):
        return headline(str(error))
    return "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
