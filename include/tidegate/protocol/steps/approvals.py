"""Manual approvals of failing rows. Approved rows do not hold a later checkpoint, and new failing rows do.

A table of current rows and an operator's state are validated as a whole each time, so an approved row fails its rule
for as long as it is there. Failing rows are identified by digests of key and value, in the verdict's results
(`FAILING`). The approved rows of a rule are carried from checkpoint to checkpoint with its result (`APPROVED`). Both
are bounded: more rows than `MOST_ROWS` are not distinguished, and hold again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import CheckpointRecord, Decision, Verdict
from tidegate.protocol.steps.hold import HoldRules
from tidegate.protocol.steps.verdicts import APPROVED, APPROVED_FROM, FAILING, is_met

#: The largest number of failing rows of a rule that are distinguished.
MOST_ROWS = 200

_Rule = tuple[Target, str, str]  # of a target and its suite: type and arguments


@dataclass(frozen=True, slots=True)
class Approval:
    """The approved rows of a rule, last approved with this checkpoint."""

    checkpoint_id: int
    rows: frozenset[str]
    rule: Mapping[str, Any]


Approvals = Mapping[_Rule, Approval]


def approved_with(record: CheckpointRecord | None, verdicts: Sequence[Verdict]) -> Approvals:
    """Return the approvals in force once the checkpoint with these verdicts has completed. Performs no I/O."""
    approvals: dict[_Rule, Approval] = {}
    if record is None:
        return approvals
    for verdict in verdicts:
        for result in verdict.results:
            if approval := _approval(record, result):
                approvals[_rule(verdict, result)] = approval
    return approvals


def _approval(record: CheckpointRecord, result: Mapping[str, Any]) -> Approval | None:
    before, failing = result.get(APPROVED), result.get(FAILING)
    rule = {name: result.get(name) for name in ("type", "kwargs")}
    if failing and record.decision is Decision.APPROVED and not is_met(result):
        rows = frozenset(failing) | frozenset(before["rows"] if before else ())
        return Approval(record.checkpoint_id, rows if len(rows) <= MOST_ROWS else frozenset(failing), rule)
    return Approval(before["checkpoint"], frozenset(before["rows"]), rule) if before else None


def with_approvals(verdicts: Sequence[Verdict], approvals: Approvals, rules: HoldRules) -> list[Verdict]:
    """Apply approvals to verdicts: a rule that holds counts as met if all rows that fail it were approved. Performs no
    I/O."""
    return [_with(verdict, approvals, rules.get(verdict.target, ())) for verdict in verdicts]


def _with(verdict: Verdict, approvals: Approvals, rules: Sequence[Any]) -> Verdict:
    if verdict.success is True and not verdict.results:  # there was nothing to validate; earlier approvals are kept
        kept = [each for rule, each in approvals.items() if rule[:2] == (verdict.target, verdict.suite)]
        return replace(verdict, results=tuple({**each.rule, "success": True, APPROVED: _noted(each)} for each in kept))
    if verdict.success is None or len(verdict.results) != len(rules):
        return verdict
    results = [
        result
        if rule is None or (approval := approvals.get(_rule(verdict, result))) is None
        else _with_approval(result, approval)
        for result, rule in zip(verdict.results, rules, strict=True)
    ]
    if results == list(verdict.results):
        return verdict
    failed = sum(not is_met(result) for result in results)
    return replace(verdict, success=not failed, failed=failed, results=tuple(results))


def _with_approval(result: Mapping[str, Any], approval: Approval) -> Mapping[str, Any]:
    failing = result.get(FAILING)
    marked = {**result, APPROVED: _noted(approval)}
    if result.get("success") is False and failing and approval.rows.issuperset(failing):
        marked[APPROVED_FROM] = approval.checkpoint_id
    return marked


def _noted(approval: Approval) -> dict[str, Any]:
    return {"checkpoint": approval.checkpoint_id, "rows": sorted(approval.rows)}


def _rule(verdict: Verdict, result: Mapping[str, Any]) -> _Rule:
    rule = json.dumps([result.get("type"), result.get("kwargs")], sort_keys=True, default=str)
    return verdict.target, verdict.suite, rule
