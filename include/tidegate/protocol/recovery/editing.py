"""Edited savepoints: one that is written from another one or from nothing, with changed state or other key groups.

The original stays unchanged. The edited savepoint records its origin (see `Edited`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.protocol.facts.errors import SavepointEditError, ValidationFailedError
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import (
    CheckpointKind,
    CheckpointRecord,
    HandleKind,
    OperatorPlan,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.recovery.canonical import STAGED, STAGED_AS, FileCopy, Rewrite, plan_export, rewrite_of
from tidegate.protocol.recovery.metadata import Metadata
from tidegate.protocol.steps.finished import Upstreams, require_legal_restore
from tidegate.protocol.steps.refusal import require_none
from tidegate.protocol.steps.restored_snapshots import Renamed, assign_snapshots, find_lost, former_names
from tidegate.protocol.steps.validate import find_complaints

#: The first checkpoint of a pipeline that never ran.
_FIRST = 1


@dataclass(frozen=True, slots=True)
class Base:
    """The original of an edit. Its files lie at `url`, and its record has the time when it completed. `origin` names
    it. `is_in_database`: its files are kept only as long as its checkpoint."""

    metadata: Metadata
    url: str
    origin: str
    is_in_database: bool = False

    @property
    def checkpoint_id(self) -> int:
        return self.metadata.record.checkpoint_id


@dataclass(frozen=True, slots=True)
class EditPlan:
    """The plan of an edit. `snapshots` are those of the definition's subtasks, with the files of the base. `rewrites`
    cover all operators with keyed state or with changes."""

    record: CheckpointRecord
    snapshots: Mapping[SubtaskId, Snapshot]
    rewrites: Sequence[Rewrite]
    copies: Sequence[FileCopy]


def begin_history(pipeline_id: str, operators: Sequence[OperatorPlan], now: datetime) -> CheckpointRecord:
    """Return the record of a savepoint that is made from nothing, for a pipeline that never ran. Performs no I/O."""
    count = sum(plan.parallelism for plan in operators)
    return CheckpointRecord(
        pipeline_id=pipeline_id,
        checkpoint_id=_FIRST,
        request_id=f"create:{now.isoformat()}",
        periodic=False,
        kind=CheckpointKind.SAVEPOINT,
        status=Status.IN_PROGRESS,
        phase=Phase.VALIDATED,
        triggered_at=now,
        deadline=now,
        acknowledged_at=now,
        validated_at=now,
        completed_at=now,
        num_subtasks=count,
        num_acknowledged=count,
        operators=tuple(operators),
    )


def plan_edit(
    base: Base,
    operators: Sequence[OperatorPlan],
    upstreams: Upstreams,
    renamed: Renamed,
    replaced: Mapping[str, bool],
    label: Label,
    allow_non_restored_state: bool,
) -> EditPlan:
    """Plan how the state of a base is written for a definition's `operators`. `replaced` are the operators with
    changes, and whether their former state is dropped.

    Raises `SavepointEditError` for rows in flight, and `StateSchemaError` if the definition cannot go on from the base
    for another reason than its max parallelism. Performs no I/O.
    """
    record = base.metadata.record
    before = {subtask: known.snapshot for subtask, known in base.metadata.subtasks.items()}
    _require_none_in_flight(base, before)
    renamed = former_names(record, renamed)
    if not allow_non_restored_state:
        require_none(find_lost(record, before, operators, renamed))
    snapshots = assign_snapshots(record, before, operators, renamed)
    require_legal_restore(record, operators, snapshots, upstreams, renamed)
    dropped = {operator_id for operator_id, is_whole in replaced.items() if is_whole}
    snapshots = {id_: _without(snapshots.get(id_, Snapshot()), id_.operator_id in dropped) for id_ in _ids(operators)}
    count = len(snapshots)
    written = record.moved(
        operators=tuple(operators),
        num_subtasks=count,
        num_acknowledged=count,
        num_finished=sum(snapshot.finished for snapshot in snapshots.values()),
        name=label.name,
        note=label.note,
    )
    _, copies = plan_export(operators, snapshots, ())
    return EditPlan(written, snapshots, _rewrites(record, operators, snapshots, renamed, replaced), copies)


def _ids(operators: Sequence[OperatorPlan]) -> list[SubtaskId]:
    return [SubtaskId(plan.operator_id, index) for plan in operators for index in range(plan.parallelism)]


def _rewrites(
    record: CheckpointRecord,
    operators: Sequence[OperatorPlan],
    snapshots: Mapping[SubtaskId, Snapshot],
    renamed: Renamed,
    replaced: Mapping[str, bool],
) -> list[Rewrite]:
    former = {plan.operator_id: plan.max_parallelism for plan in record.operators}
    plans = {plan.operator_id: plan for plan in operators}
    rewrites = []
    for subtask, snapshot in snapshots.items():
        id_ = subtask.operator_id
        rewrite = rewrite_of(subtask, plans[id_], snapshot.handles)
        if rewrite.runs or id_ in replaced:
            rewrites.append(replace(rewrite, former=former.get(renamed.get(id_, id_))))
    return rewrites


def _without(snapshot: Snapshot, drops_state: bool) -> Snapshot:
    """Return the snapshot without staged files, which are staged again."""
    gone = {HandleKind.STAGED, HandleKind.RUN} if drops_state else {HandleKind.STAGED}
    return replace(snapshot, handles=tuple(handle for handle in snapshot.handles if handle.kind not in gone))


def _require_none_in_flight(base: Base, snapshots: Mapping[SubtaskId, Snapshot]) -> None:
    for subtask, snapshot in snapshots.items():
        if (snapshot.position or {}).get("in_flight") or any(h.kind is HandleKind.CHANNEL for h in snapshot.handles):
            record = base.metadata.record
            raise SavepointEditError(
                f"Checkpoint {record.checkpoint_id} of pipeline {record.pipeline_id} cannot be rewritten: it is an "
                f"unaligned one, and holds rows on their way to {subtask.operator_id} that are not in its state yet. "
                "Nothing was written. Take a savepoint, which waits for such rows, with the definition that the "
                f"checkpoint was taken with: `tidegate savepoint {record.pipeline_id}`. Then repeat this with it."
            )


def rewritten(
    base: Base, plan: EditPlan, runs: Mapping[SubtaskId, StateHandle], now: datetime
) -> dict[SubtaskId, SubtaskRecord]:
    """Return the subtasks of the directory, without staged files. `now` stands in for unknown times. Performs no
    I/O."""
    places = {copy.handle.path: copy.path for copy in plan.copies}
    found = {}
    for id_, snapshot in plan.snapshots.items():
        positions = (
            replace(handle, path=places[handle.path])
            for handle in snapshot.handles
            if handle.kind is HandleKind.POSITION
        )
        state = (runs[id_],) if id_ in runs else ()
        kept = replace(snapshot, handles=(*state, *positions))
        known = base.metadata.subtasks.get(id_, SubtaskRecord(id_, 1, now))
        found[id_] = replace(known, snapshot=kept, acknowledged_at=known.acknowledged_at or now)
    return found


def with_staged(
    subtasks: Mapping[SubtaskId, SubtaskRecord], staged: Mapping[SubtaskId, Sequence[StateHandle]]
) -> dict[SubtaskId, SubtaskRecord]:
    """Add staged files to the subtasks. Each is named by its path below the root that the sink was given. Performs no
    I/O."""
    complete = dict(subtasks)
    for id_, handles in staged.items():
        root = staging_root(id_.operator_id)
        own = (
            replace(handle, path=f"{root}/{handle.path}", details={**handle.details, STAGED_AS: handle.path})
            for handle in handles
        )
        snapshot = complete[id_].snapshot
        complete[id_] = replace(complete[id_], snapshot=replace(snapshot, handles=(*snapshot.handles, *own)))
    return complete


def staging_root(operator_id: str) -> str:
    """Return the directory where a sink stages, below that of the savepoint."""
    return f"{STAGED}/{operator_id}"


def require_meets_expectations(
    record: CheckpointRecord, location: str, targets: Sequence[Target], verdicts: Sequence[Verdict]
) -> None:
    """Raise `ValidationFailedError` if a verdict rejects the savepoint. Performs no I/O."""
    if complaints := find_complaints(targets, verdicts):
        reports = sorted({verdict.docs_path for verdict in verdicts if verdict.docs_path is not None})
        where = f" The report is {reports[0]} below the directory of the pipelines' reports." if reports else ""
        raise ValidationFailedError(
            f"The savepoint of pipeline {record.pipeline_id} that was to be written to {location} does not meet the "
            f"pipeline's expectations. {' '.join(complaints)}{where} Nothing is left there, and nothing else was "
            "changed. Correct the rows, then repeat the edit."
        )
