"""When a verdict need not be given anew: the files are those of the last one.

A verdict carries over if it was good, and if all that it depends on is equal: the files by name and checksum, the
definition of what is judged, and what the expectations mean. These are its *basis*. A verdict that failed, or that was
not reached, never carries over, also not if a person has approved it: the next one says so of itself (`approvals`).
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
class Judged:
    """What a verdict on a target is about: the files of one kind of these operators. `definition` is a digest of all
    that it depends on beside these; None if it depends on more than that, such as the time."""

    target: Target
    suite: str
    operators: tuple[str, ...]
    kind: HandleKind
    definition: str | None


def carry_over(
    targets: Sequence[Judged],
    subtasks: Mapping[SubtaskId, SubtaskRecord],
    before: Sequence[Verdict],
    before_id: int,
) -> list[Verdict]:
    """The verdicts that carry over. `before` are those of an earlier checkpoint. Performs no I/O."""
    earlier = {(verdict.target, verdict.suite): verdict for verdict in before}
    found = []
    for judged in targets:
        if (last := earlier.get((judged.target, judged.suite))) and _holds(last, basis_of(judged, subtasks)):
            origin = before_id if last.carried_from is None else last.carried_from
            found.append(replace(last, carried_from=origin))
    return found


def founded(
    targets: Sequence[Judged], subtasks: Mapping[SubtaskId, SubtaskRecord], verdicts: Sequence[Verdict]
) -> list[Verdict]:
    """Verdicts that were given, with the basis on which the good ones may carry over. Performs no I/O."""
    known = {judged.target: judged for judged in targets}
    return [
        replace(each, basis=basis_of(known[each.target], subtasks))
        if each.success is True and each.target in known
        else each
        for each in verdicts
    ]


def basis_of(judged: Judged, subtasks: Mapping[SubtaskId, SubtaskRecord]) -> str | None:
    """A digest of everything that the verdict depends on; None if there is more, or nothing. Performs no I/O."""
    files = files_of(judged, subtasks)
    if judged.definition is None or not files:
        return None
    if any(RecordedTtl.of(handle) is not None for _, handle in files if handle.kind is HandleKind.RUN):
        return None  # which rows there are depends on the time
    named = [[str(subtask), handle.path, handle.checksum, handle.bytes] for subtask, handle in files]
    return sha256(json.dumps([judged.definition, named]).encode()).hexdigest()


def _holds(last: Verdict, basis: str | None) -> bool:
    return last.success is True and basis is not None and last.basis == basis


def files_of(judged: Judged, subtasks: Mapping[SubtaskId, SubtaskRecord]) -> list[tuple[SubtaskId, StateHandle]]:
    """What is judged, in the order in which it is read: of each subtask, as it reported them. Files of keys that are
    gone have no rows to judge. Performs no I/O."""
    return [
        (subtask, handle)
        for subtask in sorted(subtasks)
        if subtask.operator_id in judged.operators
        for handle in subtasks[subtask].snapshot.handles
        if handle.kind is judged.kind and DELETES not in handle.details
    ]
