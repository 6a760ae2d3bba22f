"""The failed expectations of a validation, for a table or for lines of a log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.protocol.facts.records import Verdict

#: Keys of a result: digests of the rows that fail a rule that holds; the rows that were approved before, with their
#: checkpoint; and the checkpoint with which all failing rows were approved (`protocol.steps.approvals`).
FAILING, APPROVED, APPROVED_FROM = "failing", "approved", "approved_from"
_SAMPLES = 5
_NAMING = ("column", "column_A", "column_B", "column_list")


@dataclass(frozen=True, slots=True)
class FailedExpectation:
    """A failed expectation in words. `observed` is the value of a whole column or table, or the reason why it could not
    be validated. `unexpected` is the number of rows that broke a rule about rows, and `samples` are some of their
    values. A missing field is empty."""

    target: str
    expectation: str
    column: str
    observed: str
    unexpected: str
    samples: str

    def __str__(self) -> str:
        on = f" on {self.column}" if self.column else ""
        parts = [self.unexpected, self.observed and f"observed {self.observed}"]
        if self.samples:
            parts.append(f"such as {self.samples}")
        return f"{self.target}: {self.expectation}{on}: {', '.join(filter(None, parts)) or 'failed'}"


def is_met(result: Mapping[str, Any]) -> bool:
    """Whether an expectation is met, or all rows that fail it were approved manually. Performs no I/O."""
    return result.get("success") is True or APPROVED_FROM in result


def failed_expectations(verdicts: Sequence[Verdict]) -> list[FailedExpectation]:
    """List the failed expectations of all verdicts, in their order. Performs no I/O."""
    return [each for v in verdicts for each in failed_of(str(v.target), v.success, v.error, v.results)]


def failed_of(
    target: str, success: bool | None, error: str | None, results: Sequence[Mapping[str, Any]]
) -> list[FailedExpectation]:
    """List the failed expectations of one verdict, or the obstacle if no expectation was validated. Performs no I/O."""
    failed = [_failed(target, result) for result in results if result.get("success") is not True]
    if not failed and success is None:
        failed.append(FailedExpectation(target, "not validated", "", error or "", "", ""))
    return failed


def _failed(target: str, result: Mapping[str, Any]) -> FailedExpectation:
    given = result.get("kwargs") or {}
    named = [given[name] for name in _NAMING if given.get(name)]
    columns = [column for name in named for column in (name if isinstance(name, list | tuple) else [name])]
    observed = result.get("error") or result.get("observed")
    return FailedExpectation(
        target,
        str(result.get("type", "")).removeprefix("expect_"),
        ", ".join(map(str, columns)),
        f"approved with checkpoint {result[APPROVED_FROM]}" if APPROVED_FROM in result else _observed(observed),
        _unexpected(result),
        ", ".join(map(str, (result.get("unexpected_samples") or [])[:_SAMPLES])),
    )


def _observed(observed: object) -> str:
    return "" if observed is None else str(observed)


def _unexpected(result: Mapping[str, Any]) -> str:
    count, total = result.get("unexpected_count"), result.get("element_count")
    if not count:
        return ""
    return f"{count:,} of {total:,} rows" if total else f"{count:,} rows"
