"""What the commands know, as JSON documents; `views.py` draws its tables from them.

Fields that Flink's REST API has too carry its names (docs/configuration.md says which differ): timestamps are
milliseconds since 1970, sizes bytes, durations milliseconds, -1 if nothing was reported.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from tidegate.cli.run import RunOutcome
from tidegate.protocol.handles import handle_for_readers
from tidegate.protocol.lifecycle import COMMITTED, Status
from tidegate.protocol.names import Fork
from tidegate.protocol.pipelines import PipelineRecord
from tidegate.protocol.records import (
    CheckpointKind,
    CheckpointRecord,
    OperatorPlan,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.restore_plan import ReturningState
from tidegate.protocol.statistics import LatestRestore, Statistics, count_checkpoints, summarize


def to_json(document: Any) -> str:
    return json.dumps(document, indent=2)


def checkpoint_document(record: CheckpointRecord) -> dict[str, Any]:
    latest = record.acknowledged_at or record.failed_at
    return {
        "id": record.checkpoint_id,
        "checkpoint_type": record.kind.value,
        "is_savepoint": record.kind is not CheckpointKind.CHECKPOINT,
        "savepointFormat": _format(record),
        "savepoint_location": record.location if record.exported_at else None,
        "savepoint_size": record.exported_size,
        "name": record.name,
        "note": record.note,
        "drain": record.drain,
        "status": _public(record.status).value,
        "phase": record.phase.value,
        "subsumed": record.status in (Status.SUBSUMED, Status.DISCARDED),
        "discarded": record.status is Status.DISCARDED,
        "abandoned": record.abandoned_by is not None,
        "request_id": record.request_id,
        "forked_from": fork_document(Fork.parse(record.request_id)),
        "trigger_timestamp": milliseconds(record.triggered_at),
        "latest_ack_timestamp": milliseconds(record.acknowledged_at),
        "completed_timestamp": milliseconds(record.completed_at),
        "notified_timestamp": milliseconds(record.notified_at),
        "end_to_end_duration": _duration(record, milliseconds(latest)),
        "num_subtasks": record.num_subtasks,
        "num_acknowledged_subtasks": record.num_acknowledged,
        "num_finished_subtasks": record.num_finished,
        "checkpointed_size": record.checkpointed_size,
        "state_size": record.state_size,
        "external_path": record.metadata_path,
        "failure_timestamp": milliseconds(record.failed_at),
        "failure_reason": record.failure_reason.name if record.failure_reason else None,
        "failure_message": record.failure_message,
        "hold": _hold(record),
    }


def _hold(record: CheckpointRecord) -> dict[str, Any] | None:
    """Of a checkpoint that waits or has waited for a person: why, until when, and what was decided."""
    if record.held_at is None:
        return None
    return {
        "held_timestamp": milliseconds(record.held_at),
        "until_timestamp": milliseconds(record.held_until),
        "message": record.held_message,
        "decision": record.decision.value if record.decision else None,
        "decision_timestamp": milliseconds(record.decided_at),
        "decided_by": record.decided_by,
        "comment": record.decision_comment,
    }


def fork_document(fork: Fork | None) -> dict[str, Any] | None:
    """What a pipeline began with; of its first checkpoint."""
    if fork is None:
        return None
    return {"pipeline": fork.pipeline_id, "checkpoint": fork.checkpoint_id, "savepoint": fork.savepoint}


def _format(record: CheckpointRecord) -> str | None:
    """A canonical one can be restored natively, too."""
    if record.kind is CheckpointKind.CHECKPOINT:
        return None
    return "NATIVE" if record.exported_at is None else "CANONICAL"


def _public(status: Status) -> Status:
    """One of Flink's three: a checkpoint that was subsumed or discarded later still counts as completed."""
    return Status.COMPLETED if status in COMMITTED else status


def details_document(
    record: CheckpointRecord, subtasks: Mapping[SubtaskId, SubtaskRecord], verdicts: Sequence[Verdict]
) -> dict[str, Any]:
    """`operators` are Flink's `tasks`, each with its subtasks, which take another request in Flink."""
    return (
        checkpoint_document(record)
        | _in_flight(subtasks.values())
        | {
            "operators": [
                _operator(
                    record, plan, [subtasks[key] for key in sorted(subtasks) if key.operator_id == plan.operator_id]
                )
                for plan in record.operators
            ],
            "verdicts": [_verdict(verdict) for verdict in verdicts],
        }
    )


def _operator(record: CheckpointRecord, plan: OperatorPlan, subtasks: Sequence[SubtaskRecord]) -> dict[str, Any]:
    acknowledged = [known for known in subtasks if known.acknowledged_at is not None]
    latest = max((milliseconds(known.acknowledged_at) for known in acknowledged), default=-1)
    complete = len(acknowledged) == len(subtasks)
    return {
        "operator_id": plan.operator_id,
        "parallelism": plan.parallelism,
        "max_parallelism": plan.max_parallelism,
        "status": (Status.COMPLETED if complete else _public(record.status)).value,
        "latest_ack_timestamp": latest,
        "end_to_end_duration": _duration(record, latest),
        "checkpointed_size": sum(known.snapshot.checkpointed_size(record.checkpoint_id) for known in acknowledged),
        "state_size": sum(known.snapshot.state_size() for known in acknowledged),
        **_in_flight(acknowledged),
        "num_subtasks": len(subtasks),
        "num_acknowledged_subtasks": len(acknowledged),
        "subtasks": [_subtask(record, known) for known in subtasks],
    }


def _in_flight(subtasks: Collection[SubtaskRecord]) -> dict[str, int]:
    """Bytes in flight; a subtask that did not report any counts as nothing."""
    return {
        "processed_data": sum(max(0, known.metrics.processed_bytes) for known in subtasks),
        "persisted_data": sum(max(0, known.metrics.persisted_bytes) for known in subtasks),
    }


def _subtask(record: CheckpointRecord, known: SubtaskRecord) -> dict[str, Any]:
    metrics = known.metrics
    return {
        "index": known.subtask.subtask_index,
        "status": "pending_or_failed" if known.acknowledged_at is None else "completed",
        "attempt": known.attempt,
        "ack_timestamp": milliseconds(known.acknowledged_at),
        "end_to_end_duration": _duration(record, milliseconds(known.acknowledged_at)),
        "finished": known.snapshot.finished,
        "start_delay": metrics.start_delay,
        "alignment": {
            "duration": metrics.alignment_duration,
            "processed": metrics.processed_bytes,
            "persisted": metrics.persisted_bytes,
        },
        "unaligned_checkpoint": metrics.persisted_bytes > 0,
        "checkpoint": {"sync": metrics.sync_duration, "async": metrics.async_duration},
        "rows_in": metrics.rows_in,
        "rows_out": metrics.rows_out,
        "checkpointed_size": known.snapshot.checkpointed_size(record.checkpoint_id),
        "state_size": known.snapshot.state_size(),
        "position": None if known.snapshot.position is None else dict(known.snapshot.position),
        "handles": [_handle(handle) for handle in known.snapshot.handles],
    }


def _handle(handle: StateHandle) -> dict[str, Any]:
    shown = handle_for_readers(handle)
    return {name: shown[name] for name in ("kind", "path", "rows", "bytes", "sha256", "created_by")}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "target": str(verdict.target),
        "suite": verdict.suite,
        "success": verdict.success,
        "evaluated": verdict.evaluated,
        "failed": verdict.failed,
        "error": verdict.error,
        "docs_path": verdict.docs_path,
        "results": [dict(result) for result in verdict.results],
    }


FIGURES = ("end_to_end_duration", "checkpointed_size", "state_size", "processed_data", "persisted_data")


def statistics_document(
    pipeline: PipelineRecord | None, statistics: Statistics, held: CheckpointRecord | None = None
) -> dict[str, Any]:
    """`held` is the checkpoint that waits for a person now."""
    completed, failed, savepoint = statistics.latest_completed, statistics.latest_failed, statistics.latest_savepoint
    known = pipeline or PipelineRecord("")
    return {
        "pipeline": {"status": known.status, "since_timestamp": milliseconds(known.since), "message": known.message},
        "counts": asdict(count_checkpoints(statistics.by_status, statistics.restores)),
        "summary": {
            figure: asdict(summarize([getattr(measured, figure) for measured in statistics.measurements]))
            for figure in FIGURES
        },
        "held": None if held is None else checkpoint_document(held),
        "latest": {
            "completed": None if completed is None else checkpoint_document(completed),
            "failed": None if failed is None else checkpoint_document(failed),
            "savepoint": None if savepoint is None else checkpoint_document(savepoint),
            "restored": _restored(statistics.latest_restore),
        },
    }


def _restored(latest: LatestRestore | None) -> dict[str, Any] | None:
    if latest is None:
        return None
    return {
        "id": latest.checkpoint.checkpoint_id,
        "checkpoint_type": latest.checkpoint.kind.value,
        "restore_timestamp": milliseconds(latest.at),
        "external_path": latest.checkpoint.metadata_path,
    }


def returning_state_document(state: ReturningState) -> dict[str, Any]:
    """What an operator gets back with a restore, or a new pipeline's with a fork."""
    return asdict(state) | {"changes": list(state.changes)}


def run_document(outcome: RunOutcome) -> dict[str, Any]:
    if outcome.dropped is not None:
        return {"dropped": outcome.dropped.reason.name, "message": outcome.dropped.message}
    assert outcome.record is not None
    sinks = [{"sink": each.sink, "rows": each.rows, "guarantee": each.guarantee} for each in outcome.delivered]
    return checkpoint_document(outcome.record) | {"sinks": sinks}


def _duration(record: CheckpointRecord, until: int) -> int:
    """From the trigger until then; -1 if there is no end yet."""
    return -1 if until < 0 else max(0, until - milliseconds(record.triggered_at))


def milliseconds(at: datetime | None) -> int:
    """Since 1970; -1 if there is no such moment."""
    return -1 if at is None else round(at.timestamp() * 1000)
