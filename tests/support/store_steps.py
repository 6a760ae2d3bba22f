"""Walks a store through the protocol's steps with small, readable data, for tests of stores."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from tidegate.ports import CheckpointStore, StoreTransaction
from tidegate.protocol.facts.keygroups import KeyGroupRange
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    Acknowledgement,
    CheckpointRecord,
    Deletion,
    HandleKind,
    OperatorPlan,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskMetrics,
)

PIPELINE = "flights"
SUBTASKS = (SubtaskId("carriers", 0), SubtaskId("carriers", 1), SubtaskId("carriers-sink", 0), SubtaskId("source", 0))
FIRST, SECOND, SINK, SOURCE = SUBTASKS

Handles = dict[SubtaskId, Sequence[StateHandle]]


def at(seconds: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def handle(path: str, created_by: int, kind: HandleKind = HandleKind.RUN) -> StateHandle:
    groups = KeyGroupRange(0, 63) if kind is HandleKind.RUN else None
    return StateHandle(path, kind, 10, 1000, "0" * 64, created_by, groups, {"level": 1})


def acknowledgement(subtask: SubtaskId, attempt: int, *handles: StateHandle) -> Acknowledgement:
    position = {"files": ["a.csv"]} if subtask == SOURCE else None
    return Acknowledgement(subtask, attempt, Snapshot(handles, position), SubtaskMetrics(start_delay=5, rows_in=100))


def record(checkpoint_id: int, request_id: str, pipeline_id: str = PIPELINE) -> CheckpointRecord:
    return CheckpointRecord(
        pipeline_id=pipeline_id,
        checkpoint_id=checkpoint_id,
        request_id=request_id,
        periodic=True,
        status=Status.IN_PROGRESS,
        phase=Phase.TRIGGERED,
        triggered_at=at(0),
        deadline=at(600),
        num_subtasks=len(SUBTASKS),
        operators=(OperatorPlan("source", 1, 128), OperatorPlan("carriers", 2, 128)),
    )


def triggered(store: CheckpointStore, request_id: str = "", pipeline_id: str = PIPELINE) -> int:
    """A new checkpoint with every subtask at attempt 1."""
    with store.transaction(pipeline_id) as transaction:
        checkpoint_id = transaction.next_checkpoint_id()
        request = request_id or f"request-{checkpoint_id}"
        transaction.add_pending(record(checkpoint_id, request, pipeline_id), SUBTASKS)
        transaction.begin_attempt(checkpoint_id)
    return checkpoint_id


def acknowledged(store: CheckpointStore, handles: Handles | None = None, checkpoint_id: int | None = None) -> int:
    """A checkpoint, new if none is named, that every subtask has acknowledged with these handles."""
    id_ = triggered(store) if checkpoint_id is None else checkpoint_id
    with store.transaction(PIPELINE) as transaction:
        given = handles or {}
        reports = [acknowledgement(subtask, 1, *given.get(subtask, ())) for subtask in SUBTASKS]
        assert transaction.record_acknowledgements(id_, reports, at(10)) == 0
        assert transaction.advance(id_, Phase.TRIGGERED, Phase.ACKNOWLEDGED, at(11))
    return id_


def validated(store: CheckpointStore, handles: Handles | None = None, checkpoint_id: int | None = None) -> int:
    id_ = acknowledged(store, handles, checkpoint_id)
    with store.transaction(PIPELINE) as transaction:
        assert transaction.advance(id_, Phase.ACKNOWLEDGED, Phase.VALIDATED, at(20))
    return id_


def completed(
    store: CheckpointStore,
    handles: Handles | None = None,
    checkpoint_id: int | None = None,
    notified: bool = True,
    subsume: Sequence[int] = (),
    committed: Sequence[str] = (),
) -> int:
    """A completed checkpoint; those it pushes out leave in the same transaction, and so do the rows of sinks that are
    `committed`."""
    id_ = validated(store, handles, checkpoint_id)
    with store.transaction(PIPELINE) as transaction:
        assert transaction.complete(id_, at(30), metadata(id_), 4000, 1000, committed)
        transaction.subsume(subsume)
    if notified:
        with store.transaction(PIPELINE) as transaction:
            transaction.mark_notified(id_, transaction.begin_commit(at(40)), at(40))
    return id_


def fail_checkpoint(store: CheckpointStore, checkpoint_id: int) -> None:
    with store.transaction(PIPELINE) as transaction:
        assert transaction.fail(checkpoint_id, FailureReason.TASK_FAILURE, "gone", at(50))


def metadata(checkpoint_id: int) -> str:
    return f"{PIPELINE}/chk-{checkpoint_id}/_metadata"


def on_storage(*paths: str) -> set[Deletion]:
    return {Deletion("storage", path) for path in paths}


def pending(store: CheckpointStore) -> set[Deletion]:
    """What the queue gives out for deletion."""
    with store.transaction(PIPELINE) as transaction:
        return set(transaction.pending_deletions(1000))


def delete_everything(store: CheckpointStore) -> None:
    """Work the queue off."""
    with store.transaction(PIPELINE) as transaction:
        transaction.remove_deletions(transaction.pending_deletions(1000))


def status(store: CheckpointStore, checkpoint_id: int) -> Status:
    found = store.checkpoint(PIPELINE, checkpoint_id)
    assert found is not None
    return found.status


class Crash(Exception):
    """What a test raises in the middle of a transaction."""


def crash_after(store: CheckpointStore, work: Callable[[StoreTransaction], object]) -> None:
    """Do some work in a transaction that then does not end well."""
    with store.transaction(PIPELINE) as transaction:
        work(transaction)
        raise Crash
