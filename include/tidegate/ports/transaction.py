"""The coordinator's transaction on the record of one pipeline."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

from tidegate.ports.event_queue import EventQueue
from tidegate.ports.garbage_queue import GarbageQueue
from tidegate.protocol.continuous.regions import RegionRecord
from tidegate.protocol.facts.branches import Branch, Restore
from tidegate.protocol.facts.lifecycle import Phase
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    Acknowledgement,
    CheckpointRecord,
    CheckpointRequest,
    CompactedRun,
    Decided,
    Deletion,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.observing.actions import ActionAnswer, AuditRecord, UserAction
from tidegate.protocol.observing.lag import SourceLag
from tidegate.protocol.recovery.identity import Endpoint
from tidegate.protocol.recovery.restores_on_pages import PlannedRestore
from tidegate.protocol.recovery.skipping import SourceSkip
from tidegate.protocol.steps.committing import CommitterRecord


class StoreTransaction(EventQueue, GarbageQueue, Protocol):
    """One transaction on one pipeline, serialised with every other transaction on it (protocol.md section 1: all
    coordinator changes happen under one lock). Reads see the transaction's own writes. Methods that move a checkpoint
    return False if it was not in the expected stage: the race was lost, and nothing was changed.
    """

    # -- facts
    def checkpoint(self, checkpoint_id: int) -> CheckpointRecord | None: ...
    def latest_by_request(self, request_id: str) -> CheckpointRecord | None:
        """Return the checkpoint of this request that counts, or else the newest that failed or that a restore has left
        behind."""
        ...

    def in_progress(self) -> list[CheckpointRecord]:
        """Return the checkpoints in progress, oldest first."""
        ...

    def retained(self) -> list[CheckpointRecord]:
        """Return checkpoints with status COMPLETED that the pipeline has behind it, oldest first."""
        ...

    def latest_completed(self) -> CheckpointRecord | None:
        """Return the newest of `retained`, from which the next checkpoint goes on."""
        ...

    def unnotified(self) -> list[CheckpointRecord]:
        """Return the checkpoints of `retained` whose sinks have not all committed, oldest first."""
        ...

    def abandoned(self) -> list[CheckpointRecord]:
        """Return checkpoints with status COMPLETED that a restore has left behind, oldest first."""
        ...

    def restores(self) -> list[Restore]:
        """Return all restores that the user has requested, oldest first."""
        ...

    def skips(self) -> list[SourceSkip]:
        """Return the skips of lost rows in the pipeline's sources, oldest first."""
        ...

    def named(self, name: str) -> CheckpointRecord | None:
        """Return the savepoint of this name that is IN_PROGRESS or COMPLETED."""
        ...

    def written_to(self, location: str) -> list[CheckpointRecord]:
        """Return the savepoints of any status whose canonical copies were begun in this directory, oldest first."""
        ...

    def last_checkpoint_id(self) -> int:
        """Return the newest id that was given out; 0 if none was."""
        ...

    def subtasks(
        self, checkpoint_id: int, only: Iterable[SubtaskId] | None = None
    ) -> dict[SubtaskId, SubtaskRecord]: ...
    def verdicts(self, checkpoint_id: int) -> list[Verdict]: ...
    def compactions(self) -> list[CompactedRun]: ...
    def pipeline(self) -> PipelineRecord: ...
    def requests(self) -> list[CheckpointRequest]:
        """Return all waiting requests, and dropped ones whose requesters have not been notified yet, in any order."""
        ...

    def failed_after(self, checkpoint_id: int) -> list[CheckpointRecord]:
        """Return checkpoints with status FAILED and a higher id, oldest first."""
        ...

    def endpoints(self) -> list[Endpoint]:
        """Return sources and sinks as last recorded, including those that the definition no longer has."""
        ...

    def lag(self) -> list[SourceLag]:
        """Return the last recorded lag of the pipeline behind each of its sources."""
        ...

    def cleaning(self) -> int:
        """Count the checkpoints that are SUBSUMED, and so wait for the deletion of their files."""
        ...

    def region(self) -> RegionRecord: ...
    def committer(self) -> CommitterRecord: ...
    def latest_subsumed(self) -> int | None:
        """Return the newest checkpoint that is SUBSUMED or DISCARDED, and that no restore has left behind."""
        ...

    def audited(self, request_id: str) -> AuditRecord | None:
        """Return the user action of this id, and its answer; None also for a text that cannot be an id."""
        ...

    def planned_restore(self, request_id: str) -> PlannedRestore | None:
        """Return the restore whose plan was requested on a page, by the id of that request."""
        ...

    # -- writes
    def record_action(self, action: UserAction, answer: ActionAnswer, at: datetime) -> AuditRecord:
        """Record a user action and its answer permanently, without secrets. Raises `IllegalRequestError` for an illegal
        id, and `RecordRefusedError` if the id already belongs to another action."""
        ...

    def put_planned_restore(self, planned: PlannedRestore) -> None:
        """Record the planned restore, or its progress. Raises `RecordRefusedError` if its request, plan or confirmation
        would change."""
        ...

    def move_pipeline(
        self, after: PipelineStatus, at: datetime, message: str | None = None, forgiven_until: int | None = None
    ) -> None:
        """Change the pipeline's status. Raises `PipelineStatusError` if the transition is not legal."""
        ...

    def record_endpoints(self, endpoints: Sequence[Endpoint], at: datetime) -> None:
        """Record sources and sinks. Each replaces the one of its role and name, and keeps the place of the old one as
        its previous place."""
        ...

    def record_skips(self, skips: Sequence[SourceSkip]) -> None:
        """Record permanently where the pipeline goes on from completed checkpoints."""
        ...

    def record_dag(self, dag_id: str, at: datetime) -> None:
        """Record that this DAG requests checkpoints of the pipeline, for readers of its status. As `touch_request`, it
        wakes no process."""
        ...

    def record_lag(self, lags: Sequence[SourceLag]) -> None:
        """Replace the recorded lag of the pipeline's sources. As `touch_request`, it wakes no process."""
        ...

    def put_request(self, request: CheckpointRequest) -> None:
        """Record a request, or its changes."""
        ...

    def touch_request(self, request_id: str, at: datetime) -> None:
        """Record that a requester still waits. It wakes no process that waits for a change: otherwise waiting
        requesters would wake each other, and themselves, for as long as they wait."""
        ...

    def remove_requests(self, request_ids: Sequence[str]) -> None: ...
    def begin_region(self, at: datetime) -> int:
        """Register the next attempt of a region, with a sign of life, and return it. An older one is overtaken."""
        ...

    def touch_region(self, attempt: int, at: datetime) -> bool:
        """Record a sign of life. False if another attempt has taken over or it was ended."""
        ...

    def end_region(self, attempt: int, at: datetime) -> bool:
        """Record that an attempt has ended. False if another attempt has taken over or it was ended before."""
        ...

    def record_restore(self, checkpoint_id: int, at: datetime) -> None:
        """Count a restore from this completed checkpoint, after a failure or by a new region."""
        ...

    def begin_restore(self, restore: Restore, present: Branch, message: str, forgiven_until: int) -> None:
        """Record a restore; this is its commit point. Of all completed checkpoints, even of those whose state is gone,
        exactly those outside of `present` are left behind from here on. The pipeline runs again, unless it is
        suspended, whatever its status: this is the only way out of CANCELLED."""
        ...

    def begin_export(self, checkpoint_id: int, location: str) -> None:
        """Record where a canonical copy of a completed savepoint is about to be written. The place never changes."""
        ...

    def mark_exported(self, checkpoint_id: int, size: int, at: datetime) -> bool:
        """Record that the copy is complete. The first record stays. False if the savepoint was disposed of."""
        ...

    def begin_import(self, after: int, at: datetime) -> int:
        """Take the next checkpoint id, which is also higher than `after`, and return it. Files are then copied in for
        this checkpoint."""
        ...

    def imports(self) -> dict[int, datetime]:
        """Return the imports in progress: their checkpoints, and the last sign of life of each."""
        ...

    def touch_import(self, checkpoint_id: int, at: datetime) -> bool:
        """Record a sign of life. False if it was ended."""
        ...

    def end_import(self, checkpoint_id: int, at: datetime) -> bool:
        """Record that an import has ended. From here on, copied files that no checkpoint refers to are swept. False if
        it was ended before."""
        ...

    def mark_rewound(self, number: int, attempt: int, at: datetime) -> bool:
        """Record that this commit attempt has rewound all sinks, as `mark_notified` does for a commit."""
        ...

    def next_checkpoint_id(self) -> int:
        """Return the next id. Ids strictly increase per pipeline, starting at 1. If this transaction rolls back, the id
        may be given out again: it counts only once its checkpoint is recorded."""
        ...

    def reserve_numbers(self, checkpoint_id: int, region_attempt: int, commit_attempt: int, at: datetime) -> None:
        """Count these numbers and all lower ones as given out, because files that the store does not know may carry
        them. A region that runs is overtaken, and leftovers of these attempts on storage are not swept."""
        ...

    def add_pending(self, record: CheckpointRecord, subtasks: Sequence[SubtaskId]) -> None:
        """Record a checkpoint and its expected subtasks, all with attempt 0."""
        ...

    def begin_attempt(self, checkpoint_id: int) -> int:
        """Give every subtask that has not acknowledged the next attempt number, and return it."""
        ...

    def record_acknowledgements(
        self, checkpoint_id: int, acknowledgements: Sequence[Acknowledgement], at: datetime, moves: bool = False
    ) -> int:
        """Store snapshots of subtasks that have not acknowledged yet, and return how many subtasks still have not. A
        subtask that was not triggered (attempt 0) must have finished. With `moves`, the checkpoint advances to
        ACKNOWLEDGED once none is left, as by `advance`."""
        ...

    def advance(self, checkpoint_id: int, before: Phase, after: Phase, at: datetime) -> bool:
        """Move an IN_PROGRESS checkpoint from one phase to the next. For a hold, see `hold` and `decide`."""
        ...

    def record_verdicts(self, checkpoint_id: int, verdicts: Sequence[Verdict]) -> None:
        """Replace the checkpoint's verdicts."""
        ...

    def accept(self, checkpoint_id: int, verdicts: Sequence[Verdict], at: datetime) -> bool:
        """Move a checkpoint from ACKNOWLEDGED to VALIDATED with these verdicts, which replace others."""
        ...

    def hold(self, checkpoint_id: int, until: datetime, message: str, at: datetime) -> bool:
        """Move a checkpoint in progress from ACKNOWLEDGED to HELD, where it waits for manual approval. `message` is the
        reason, for the user."""
        ...

    def decide(self, checkpoint_id: int, decided: Decided, deadline: datetime) -> bool:
        """Record the manual decision on a HELD checkpoint, once. An approved one becomes VALIDATED, with this deadline.
        A rejected one must fail in the same transaction."""
        ...

    def correct_deadline(self, checkpoint_id: int, deadline: datetime) -> bool:
        """Replace the deadline of a checkpoint in progress that a clock had set too far ahead."""
        ...

    def drop_staged(self, checkpoint_id: int, files: Sequence[Deletion]) -> None:
        """Forget files of versions (see `protocol.continuous.overlap`) that a checkpoint in progress has staged, and
        queue them for deletion."""
        ...

    def complete(
        self,
        checkpoint_id: int,
        at: datetime,
        metadata_path: str,
        state_size: int,
        checkpointed_size: int,
        committed_sinks: Sequence[str] = (),
    ) -> bool:
        """Move a checkpoint in progress from VALIDATED to COMPLETED. The commit of this transaction is the commit
        point. `committed_sinks` are the operator ids of the sinks whose rows become visible with it."""
        ...

    def fail(self, checkpoint_id: int, reason: FailureReason, message: str, at: datetime) -> bool:
        """Move a checkpoint from IN_PROGRESS to FAILED, and enqueue for deletion the files that only this checkpoint
        refers to (see `subsume`), as `given_up_by` this checkpoint."""
        ...

    def subsume(self, checkpoint_ids: Sequence[int]) -> None:
        """Move checkpoints from COMPLETED to SUBSUMED, and enqueue for deletion the files that no live checkpoint
        refers to any more.

        Live references are the handles of the subtasks of checkpoints that are IN_PROGRESS or COMPLETED, and those of
        compacted runs. A file that the subsumed checkpoints refer to and nothing live does is garbage. `STAGED` handles
        go to the queue under owner `sink:<operator_id>`, all others and a `metadata_path` under `storage`.
        """
        ...

    def relabel(self, checkpoint_id: int, label: Label) -> None:
        """Replace the name and note of a savepoint."""
        ...

    def begin_commit(self, at: datetime) -> int:
        """Register the next attempt at committing sinks, with a sign of life, and return it. An older one is
        overtaken."""
        ...

    def touch_committer(self, attempt: int, at: datetime) -> bool:
        """Record a sign of life. False if another attempt has taken over or it was ended."""
        ...

    def end_commit(self, attempt: int, problem: str | None = None) -> bool:
        """Record that an attempt has ended, and its problem if it has failed. False if another attempt has taken over
        or it was ended before."""
        ...

    def mark_notified(self, checkpoint_id: int, attempt: int, at: datetime, ends: bool = False) -> bool:
        """Record that this attempt has committed all sinks. The first record stays. With `ends` the attempt ends too,
        as by `end_commit`. False, and nothing is changed, if another attempt has taken over or it was ended."""
        ...

    def add_compactions(self, compactions: Sequence[CompactedRun]) -> None: ...
    def remove_compactions(self, paths: Sequence[str]) -> None:
        """Forget compacted runs by the path of their handle. A file that nothing live refers to is enqueued."""
        ...
