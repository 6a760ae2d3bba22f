"""Verdicts that carry over from an earlier checkpoint with the same files.

A verdict carries over if it was good, and if all that it depends on is equal: the files by name and checksum, the
definition of the target, and the meaning of the expectations. These are its *basis*. A verdict that failed or is
missing never carries over, not even if it was approved manually. The next verdict applies the approval itself
(`approvals`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import HandleKind, StateHandle, SubtaskId, SubtaskRecord, Verdict
from tidegate.protocol.schema.expiry import RecordedTtl
from tidegate.protocol.steps.sink_marks import DELETES


@dataclass(frozen=True, slots=True)
class ValidationTarget:
    """The subject of a verdict on a target: the files of one kind of these operators. `definition` is a digest of all
    else that the verdict depends on; None if it depends on more than that, such as the time."""

    target: Target
    suite: str
    operators: tuple[str, ...]
    kind: HandleKind
    definition: str | None


def carry_over(
    targets: Sequence[ValidationTarget],
    subtasks: Mapping[SubtaskId, SubtaskRecord],
    before: Sequence[Verdict],
    before_id: int,
) -> list[Verdict]:
    """Return the verdicts that carry over. `before` are those of an earlier checkpoint. Performs no I/O."""
    earlier = {(verdict.target, verdict.suite): verdict for verdict in before}
    carried = []
    for target in targets:
        if (last := earlier.get((target.target, target.suite))) and _holds(last, basis_of(target, subtasks)):
            origin = before_id if last.carried_from is None else last.carried_from
            carried.append(replace(last, carried_from=origin))
    return carried


def founded(
    targets: Sequence[ValidationTarget], subtasks: Mapping[SubtaskId, SubtaskRecord], verdicts: Sequence[Verdict]
) -> list[Verdict]:
    """Add to good verdicts the basis on which they may carry over. Performs no I/O."""
    by_target = {target.target: target for target in targets}
    return [
        replace(verdict, basis=basis_of(by_target[verdict.target], subtasks))
        if verdict.success is True and verdict.target in by_target
        else verdict
        for verdict in verdicts
    ]


def basis_of(target: ValidationTarget, subtasks: Mapping[SubtaskId, SubtaskRecord]) -> str | None:
    """Return a digest of everything that the verdict depends on; None if no digest can cover it, or if there are no
    files. Performs no I/O."""
    files = files_of(target, subtasks)
    if target.definition is None or not files:
        return None
    if any(RecordedTtl.of(handle) is not None for _, handle in files if handle.kind is HandleKind.RUN):
        return None  # the rows depend on the time
    named = [[str(subtask), handle.path, handle.checksum, handle.bytes] for subtask, handle in files]
    return sha256(json.dumps([target.definition, named]).encode()).hexdigest()


def _holds(last: Verdict, basis: str | None) -> bool:
    return last.success is True and basis is not None and last.basis == basis


def files_of(
    target: ValidationTarget, subtasks: Mapping[SubtaskId, SubtaskRecord]
) -> list[tuple[SubtaskId, StateHandle]]:
    """Return the files to validate in the order in which they are read: by subtask, as it reported them. Files of
    deleted keys have no rows to validate. Performs no I/O."""
    return [
        (subtask, handle)
        for subtask in sorted(subtasks)
        if subtask.operator_id in target.operators
        for handle in subtasks[subtask].snapshot.handles
        if handle.kind is target.kind and DELETES not in handle.details
    ]
