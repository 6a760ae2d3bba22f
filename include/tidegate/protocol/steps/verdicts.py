"""What failed of a validation, expectation by expectation: for a table, or for lines of a log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.protocol.facts.records import Verdict

#: Keys of a result: digests of the rows that fail a rule that holds; what was approved of it before, and with which
#: checkpoint; and with which one all that fails it was approved (`protocol.steps.approvals`).
FAILING, APPROVED, APPROVED_FROM = "failing", "approved", "approved_from"
_SAMPLES = 5
_NAMING = ("column", "column_A", "column_B", "column_list")


@dataclass(frozen=True, slots=True)
class FailedExpectation:
    """`observed` is what was found of a whole column or table, or why it could not be judged; `unexpected` how many
    rows broke a rule about rows, and `samples` some of their values. What there is not is empty."""

    target: str
    expectation: str
    column: str
    observed: str
    unexpected: str
    samples: str

    def __str__(self) -> str:
        on = f" on {self.column}" if self.column else ""
        found = [self.unexpected, self.observed and f"observed {self.observed}"]
        if self.samples:
            found.append(f"such as {self.samples}")
        return f"{self.target}: {self.expectation}{on}: {', '.join(filter(None, found)) or 'failed'}"


def is_met(result: Mapping[str, Any]) -> bool:
    """Whether an expectation stops nothing: it holds, or a person has approved all that fails it. Performs no I/O."""
    return result.get("success") is True or APPROVED_FROM in result


def failed_expectations(verdicts: Sequence[Verdict]) -> list[FailedExpectation]:
    """Of all verdicts, in their order. Performs no I/O."""
    return [each for v in verdicts for each in failed_of(str(v.target), v.success, v.error, v.results)]


def failed_of(
    target: str, success: bool | None, error: str | None, results: Sequence[Mapping[str, Any]]
) -> list[FailedExpectation]:
    """Of one verdict. If no expectation was judged, what stood in the way. Performs no I/O."""
    found = [_failed(target, result) for result in results if result.get("success") is not True]
    if not found and success is None:
        found.append(FailedExpectation(target, "not judged", "", error or "", "", ""))
    return found


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
