"""The snapshot step: the task of a region for a checkpoint, in a first attempt or a later one.

A later attempt does not repeat acknowledged work, and must read exactly the same cut. Source splits acknowledge before
any operator runs. So either the cut is on record and is replayed, or nothing that depends on it counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.protocol.barriers.messages import StopMode
from tidegate.protocol.facts.errors import (
    CheckpointExpiredError,
    CheckpointNotInProgressError,
    PipelineDefinitionError,
    SupersededAttemptError,
)
from tidegate.protocol.facts.lifecycle import COMMITTED, Phase, Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    CheckpointKind,
    CheckpointRecord,
    OperatorPlan,
    Snapshot,
    SubtaskId,
    SubtaskRecord,
)
from tidegate.protocol.steps.stopping import stop_mode
from tidegate.protocol.text.sentences import reassured


@dataclass(frozen=True, slots=True)
class SnapshotTask:
    """A region's task for its part of a checkpoint.

    `attempts` holds the subtasks that have not acknowledged, with their current attempt. `restored` holds the snapshots
    of the latest completed checkpoint, compactions applied. `acknowledged` holds the snapshots that earlier attempts
    acknowledged, or with which subtasks had finished before. `stop` is the way in which the pipeline stops with this
    checkpoint, if it does.
    """

    checkpoint_id: int
    triggered_at: datetime
    attempts: Mapping[SubtaskId, int]
    restored: Mapping[SubtaskId, Snapshot]
    acknowledged: Mapping[SubtaskId, Snapshot]
    kind: CheckpointKind = CheckpointKind.CHECKPOINT
    stop: StopMode | None = None


def needs_attempt(record: CheckpointRecord) -> bool:
    """Whether the checkpoint still waits for snapshots. False once all have arrived, even long after.

    Raises `CheckpointNotInProgressError` if it was aborted. Performs no I/O.
    """
    if record.status in COMMITTED:
        return False
    if record.status is Status.FAILED:
        raise ended_error(record)
    return record.phase is Phase.TRIGGERED


def require_same_plan(record: CheckpointRecord, plan: Sequence[OperatorPlan]) -> None:
    """Check that a process that continues a checkpoint has the operators it was triggered for. With others, rows would
    be lost or remain without a verdict. Raises `PipelineDefinitionError` with the differences. Performs no I/O.
    """
    before = {operator.operator_id: operator for operator in record.operators}
    now = {operator.operator_id: operator for operator in plan}
    if before == now:
        return
    changes = [f"{id_} is new" for id_ in sorted(now.keys() - before.keys())]
    changes += [f"{id_} is gone" for id_ in sorted(before.keys() - now.keys())]
    changes += [
        f"{id_} had {_size(before[id_])} and has {_size(now[id_])}"
        for id_ in sorted(before.keys() & now.keys())
        if before[id_] != now[id_]
    ]
    raise PipelineDefinitionError(
        f"Checkpoint {record.checkpoint_id} of pipeline {record.pipeline_id} was triggered for another definition of "
        f"the pipeline: {'; '.join(changes)}. Nothing was run or validated, because rows would be lost. Committed data "
        "and the latest completed checkpoint are untouched. The next checkpoint uses the new definition: let this one "
        "be aborted (in Airflow: let the DAG run fail, then clear it), or put the old definition back to finish it."
    )


def _size(operator: OperatorPlan) -> str:
    return f"{operator.parallelism} subtasks of {operator.max_parallelism} key groups"


def plan_attempt(
    record: CheckpointRecord,
    subtasks: Mapping[SubtaskId, SubtaskRecord],
    restored: Mapping[SubtaskId, Snapshot],
) -> SnapshotTask:
    """Return the task of the attempt that has just begun. Performs no I/O."""
    return SnapshotTask(
        checkpoint_id=record.checkpoint_id,
        triggered_at=record.triggered_at,
        attempts={id_: known.attempt for id_, known in subtasks.items() if known.acknowledged_at is None},
        restored=restored,
        acknowledged={id_: known.snapshot for id_, known in subtasks.items() if known.acknowledged_at is not None},
        kind=record.kind,
        stop=stop_mode(record),
    )


def ended_error(record: CheckpointRecord) -> CheckpointNotInProgressError:
    """Return the error of a step that came too late, with the recorded cause."""
    reason = record.failure_reason.name if record.failure_reason else record.status
    return CheckpointNotInProgressError(
        f"Checkpoint {record.checkpoint_id} of pipeline {record.pipeline_id} has ended: {reason}. "
        f"{reassured(record.failure_message or '')} Run the pipeline again (in Airflow: clear the whole DAG run) to "
        "take a new checkpoint."
    )


def late_error(record: CheckpointRecord) -> CheckpointExpiredError | CheckpointNotInProgressError:
    """Return the error of a snapshot for a checkpoint that failed. An expired checkpoint has an error of its own.
    Performs no I/O."""
    if record.failure_reason is FailureReason.CHECKPOINT_EXPIRED:
        return CheckpointExpiredError(record.failure_message)
    return ended_error(record)


def fenced_error(
    record: CheckpointRecord, subtasks: Mapping[SubtaskId, SubtaskRecord], task: SnapshotTask
) -> SupersededAttemptError | CheckpointExpiredError | CheckpointNotInProgressError | None:
    """Return the error of an attempt that does not count any more; None for the current one. It takes precedence over
    any other error of the attempt.

    `subtasks` are the current records, at least those of the task; of a checkpoint whose history is rolled up there are
    none. Performs no I/O.
    """
    if record.status is Status.FAILED:
        return late_error(record)
    if not subtasks.keys() >= task.attempts.keys():
        return SupersededAttemptError(
            f"Checkpoint {record.checkpoint_id} of pipeline {record.pipeline_id} completed so long ago that its "
            f"attempts are not kept any more. The work of attempt {max(task.attempts.values())} since then does not "
            "count. No action is needed."
        )
    newest = max((subtasks[key].attempt for key in task.attempts), default=0)
    if all(subtasks[key].attempt == attempt for key, attempt in task.attempts.items()):
        return None
    return SupersededAttemptError(
        f"Attempt {max(task.attempts.values())} at checkpoint {record.checkpoint_id} of pipeline {record.pipeline_id} "
        f"was superseded by attempt {newest}. Nothing it did counts, and its files will be deleted. No action is "
        "needed: the later attempt continues the checkpoint."
    )
