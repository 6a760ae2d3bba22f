"""An approval is for what was seen: rows that a person let pass do not hold a checkpoint again, and new ones do.

A table of current rows and an operator's state are judged as a whole each time, so a row that was approved fails its
rule for as long as it is there. What fails is known by digests of key and value, in the verdict's results (`FAILING`);
what was approved of a rule goes on from checkpoint to checkpoint beside it (`APPROVED`). Both are bounded: more rows
than `MOST_ROWS` are not told apart, and hold again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import CheckpointRecord, Decision, Verdict
from tidegate.protocol.steps.hold import HoldRules
from tidegate.protocol.steps.verdicts import APPROVED, APPROVED_FROM, FAILING, is_met

#: Failing rows of a rule that are told apart.
MOST_ROWS = 200

_Rule = tuple[Target, str, str]  # of a target and its suite: type and arguments


@dataclass(frozen=True, slots=True)
class Approval:
    """What was approved of a rule, last with this checkpoint."""

    checkpoint_id: int
    rows: frozenset[str]
    rule: Mapping[str, Any]


Approvals = Mapping[_Rule, Approval]


def approved_with(record: CheckpointRecord | None, verdicts: Sequence[Verdict]) -> Approvals:
    """What is approved once this checkpoint, whose verdicts these are, has completed. Performs no I/O."""
    found: dict[_Rule, Approval] = {}
    if record is None:
        return found
    for verdict in verdicts:
        for result in verdict.results:
            if approval := _approval(record, result):
                found[_rule(verdict, result)] = approval
    return found


def _approval(record: CheckpointRecord, result: Mapping[str, Any]) -> Approval | None:
    before, failing = result.get(APPROVED), result.get(FAILING)
    rule = {name: result.get(name) for name in ("type", "kwargs")}
    if failing and record.decision is Decision.APPROVED and not is_met(result):
        known = frozenset(failing) | frozenset(before["rows"] if before else ())
        return Approval(record.checkpoint_id, known if len(known) <= MOST_ROWS else frozenset(failing), rule)
    return Approval(before["checkpoint"], frozenset(before["rows"]), rule) if before else None


def with_approvals(verdicts: Sequence[Verdict], approvals: Approvals, rules: HoldRules) -> list[Verdict]:
    """The verdicts, where rules that hold count as met if all that fails them was approved. Performs no I/O."""
    return [_with(verdict, approvals, rules.get(verdict.target, ())) for verdict in verdicts]


def _with(verdict: Verdict, approvals: Approvals, rules: Sequence[Any]) -> Verdict:
    if verdict.success is True and not verdict.results:  # nothing was judged, and what was approved is not forgotten
        kept = [each for rule, each in approvals.items() if rule[:2] == (verdict.target, verdict.suite)]
        return replace(verdict, results=tuple({**each.rule, "success": True, APPROVED: _noted(each)} for each in kept))
    if verdict.success is None or len(verdict.results) != len(rules):
        return verdict
    results = [
        result
        if rule is None or (approval := approvals.get(_rule(verdict, result))) is None
        else _told(result, approval)
        for result, rule in zip(verdict.results, rules, strict=True)
    ]
    if results == list(verdict.results):
        return verdict
    failed = sum(not is_met(result) for result in results)
    return replace(verdict, success=not failed, failed=failed, results=tuple(results))


def _told(result: Mapping[str, Any], approval: Approval) -> Mapping[str, Any]:
    failing = result.get(FAILING)
    told = {**result, APPROVED: _noted(approval)}
    if result.get("success") is False and failing and approval.rows.issuperset(failing):
        told[APPROVED_FROM] = approval.checkpoint_id
    return told


def _noted(approval: Approval) -> dict[str, Any]:
    return {"checkpoint": approval.checkpoint_id, "rows": sorted(approval.rows)}


def _rule(verdict: Verdict, result: Mapping[str, Any]) -> _Rule:
    said = json.dumps([result.get("type"), result.get("kwargs")], sort_keys=True, default=str)
    return verdict.target, verdict.suite, said
