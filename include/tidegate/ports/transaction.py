"""One transaction on the record of a pipeline: what the coordinator asks and writes in it."""

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
    return False if it was not where they expect it: the race was lost and nothing was changed.
    """

    # -- facts
    def checkpoint(self, checkpoint_id: int) -> CheckpointRecord | None: ...
    def latest_by_request(self, request_id: str) -> CheckpointRecord | None:
        """The checkpoint that this request asked for and that counts; without one the newest that failed or was left
        behind by a restore."""
        ...

    def in_progress(self) -> list[CheckpointRecord]:
        """Oldest first."""
        ...

    def retained(self) -> list[CheckpointRecord]:
        """Checkpoints with status COMPLETED that the pipeline has behind it, oldest first."""
        ...

    def latest_completed(self) -> CheckpointRecord | None:
        """The newest of `retained`: what the next checkpoint goes on from."""
        ...

    def unnotified(self) -> list[CheckpointRecord]:
        """Those of `retained` whose sinks have not all committed, oldest first."""
        ...

    def abandoned(self) -> list[CheckpointRecord]:
        """Checkpoints with status COMPLETED that a restore has left behind, oldest first."""
        ...

    def restores(self) -> list[Restore]:
        """All that the user asked for, oldest first."""
        ...

    def skips(self) -> list[SourceSkip]:
        """What was skipped of the pipeline's sources, oldest first."""
        ...

    def named(self, name: str) -> CheckpointRecord | None:
        """The savepoint of this name that is IN_PROGRESS or COMPLETED."""
        ...

    def written_to(self, location: str) -> list[CheckpointRecord]:
        """The savepoints, of whatever status, whose canonical copies were begun in this directory, oldest first."""
        ...

    def last_checkpoint_id(self) -> int:
        """The newest id that was given out, 0 if none was."""
        ...

    def subtasks(
        self, checkpoint_id: int, only: Iterable[SubtaskId] | None = None
    ) -> dict[SubtaskId, SubtaskRecord]: ...
    def verdicts(self, checkpoint_id: int) -> list[Verdict]: ...
    def compactions(self) -> list[CompactedRun]: ...
    def pipeline(self) -> PipelineRecord: ...
    def requests(self) -> list[CheckpointRequest]:
        """All that wait, and dropped ones whose requesters have not heard of it yet; in no particular order."""
        ...

    def failed_after(self, checkpoint_id: int) -> list[CheckpointRecord]:
        """Checkpoints with status FAILED and a higher id, oldest first."""
        ...

    def endpoints(self) -> list[Endpoint]:
        """Sources and sinks as last recorded, including those that the definition no longer has."""
        ...

    def lag(self) -> list[SourceLag]:
        """How far behind its sources the pipeline was when that was last recorded, by source."""
        ...

    def cleaning(self) -> int:
        """How many checkpoints are SUBSUMED, and so wait for their files to be deleted."""
        ...

    def region(self) -> RegionRecord: ...
    def committer(self) -> CommitterRecord: ...
    def latest_subsumed(self) -> int | None:
        """The newest checkpoint that is SUBSUMED or DISCARDED, and that no restore has left behind."""
        ...

    def audited(self, request_id: str) -> AuditRecord | None:
        """The action of this id, and its answer. A text that cannot be an id is of none."""
        ...

    def planned_restore(self, request_id: str) -> PlannedRestore | None:
        """The restore whose plan was asked for on a page, by the id of that request."""
        ...

    # -- writes
    def record_action(self, action: UserAction, answer: ActionAnswer, at: datetime) -> AuditRecord:
        """Put it on record for good, without secrets. Raises `IllegalRequestError` for an id that cannot be one, and
        `RecordRefusedError` if it is of another action already."""
        ...

    def put_planned_restore(self, planned: PlannedRestore) -> None:
        """Record it, or what is new about it. Raises `RecordRefusedError` if what was asked, planned or confirmed would
        change."""
        ...

    def move_pipeline(
        self, after: PipelineStatus, at: datetime, message: str | None = None, forgiven_until: int | None = None
    ) -> None:
        """Raises `PipelineStatusError` if the transition is not legal."""
        ...

    def record_endpoints(self, endpoints: Sequence[Endpoint], at: datetime) -> None:
        """Each replaces the one of its role and name; the place of the old one is kept beside it."""
        ...

    def record_skips(self, skips: Sequence[SourceSkip]) -> None:
        """Put on record, for good, where the pipeline goes on from completed checkpoints."""
        ...

    def record_dag(self, dag_id: str, at: datetime) -> None:
        """Record that this DAG asks for checkpoints of the pipeline, for those who look. As `touch_request`, it wakes
        nobody."""
        ...

    def record_lag(self, lags: Sequence[SourceLag]) -> None:
        """Replace what is recorded of the pipeline's sources. As `touch_request`, it wakes nobody."""
        ...

    def put_request(self, request: CheckpointRequest) -> None:
        """Record a request, or what is new about it."""
        ...

    def touch_request(self, request_id: str, at: datetime) -> None:
        """Record that its requester still asks. That wakes no process that waits for a change: otherwise waiting
        requesters would wake each other, and themselves, for as long as they wait."""
        ...

    def remove_requests(self, request_ids: Sequence[str]) -> None: ...
    def begin_region(self, at: datetime) -> int:
        """Register the next attempt of a region, seen now, and return it; an older one is overtaken."""
        ...

    def touch_region(self, attempt: int, at: datetime) -> bool:
        """Record a sign of life. False if another attempt has taken over or it was ended."""
        ...

    def end_region(self, attempt: int, at: datetime) -> bool:
        """False if another attempt has taken over or it was ended before."""
        ...

    def record_restore(self, checkpoint_id: int, at: datetime) -> None:
        """Count a restore from this completed checkpoint, after a failure or by a new region."""
        ...

    def begin_restore(self, restore: Restore, present: Branch, message: str, forgiven_until: int) -> None:
        """Record a restore, its commit point. Of all checkpoints that have completed, also of those whose state is not
        kept any more, exactly those outside of `present` are left behind from here on. Whatever the pipeline's status,
        it runs again, unless it is suspended: this is the only way out of CANCELLED."""
        ...

    def begin_export(self, checkpoint_id: int, location: str) -> None:
        """Record where a canonical copy of a completed savepoint is about to be written. That stays as it is."""
        ...

    def mark_exported(self, checkpoint_id: int, size: int, at: datetime) -> bool:
        """Record that the copy is complete; the first record stays. False if the savepoint was disposed of."""
        ...

    def begin_import(self, after: int, at: datetime) -> int:
        """Take the next checkpoint id, higher than `after` too, for a checkpoint whose files are about to be copied in,
        and return it."""
        ...

    def imports(self) -> dict[int, datetime]:
        """Those under way: their checkpoints, and the last sign of life of each."""
        ...

    def touch_import(self, checkpoint_id: int, at: datetime) -> bool:
        """Record a sign of life. False if it was ended."""
        ...

    def end_import(self, checkpoint_id: int, at: datetime) -> bool:
        """From here on, what was copied is swept as far as no checkpoint has it. False if it was ended before."""
        ...

    def mark_rewound(self, number: int, attempt: int, at: datetime) -> bool:
        """Record that this commit attempt has rewound all sinks; as `mark_notified`."""
        ...

    def next_checkpoint_id(self) -> int:
        """Strictly increasing per pipeline, starting at 1. If this transaction rolls back, the id may be given again:
        it counts only once its checkpoint is recorded."""
        ...

    def reserve_numbers(self, checkpoint_id: int, region_attempt: int, commit_attempt: int, at: datetime) -> None:
        """Count these numbers and all lower ones as given out: something that the store does not know may carry them. A
        region that runs is overtaken, and what regions of these attempts have left on storage is not looked for."""
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
        """Store snapshots of subtasks that have not acknowledged yet; returns how many subtasks still have not. One
        that was not asked (attempt 0) must have finished. If it `moves` the checkpoint on, it is as after `advance` to
        ACKNOWLEDGED once none is left."""
        ...

    def advance(self, checkpoint_id: int, before: Phase, after: Phase, at: datetime) -> bool:
        """Move an IN_PROGRESS checkpoint from one phase to the next. Of one that is held, see `hold` and `decide`."""
        ...

    def record_verdicts(self, checkpoint_id: int, verdicts: Sequence[Verdict]) -> None:
        """Replace the checkpoint's verdicts."""
        ...

    def accept(self, checkpoint_id: int, verdicts: Sequence[Verdict], at: datetime) -> bool:
        """ACKNOWLEDGED -> VALIDATED with these verdicts, which replace others."""
        ...

    def hold(self, checkpoint_id: int, until: datetime, message: str, at: datetime) -> bool:
        """IN_PROGRESS/ACKNOWLEDGED -> HELD: it waits for a person. `message` is for that person."""
        ...

    def decide(self, checkpoint_id: int, decided: Decided, deadline: datetime) -> bool:
        """Record what was decided about a HELD checkpoint, once. An approved one becomes VALIDATED, with this deadline;
        a rejected one must fail in the same transaction."""
        ...

    def correct_deadline(self, checkpoint_id: int, deadline: datetime) -> bool:
        """Replace the deadline of a checkpoint in progress, which a clock that was ahead had set."""
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
        """IN_PROGRESS/VALIDATED -> COMPLETED. Committing this transaction is the commit point. `committed_sinks`: the
        operator ids of those whose rows become visible with it."""
        ...

    def fail(self, checkpoint_id: int, reason: FailureReason, message: str, at: datetime) -> bool:
        """IN_PROGRESS -> FAILED, and enqueue for deletion what only this checkpoint refers to (see `subsume`). It
        counts as `given_up_by` this checkpoint."""
        ...

    def subsume(self, checkpoint_ids: Sequence[int]) -> None:
        """COMPLETED -> SUBSUMED, and enqueue for deletion what no live checkpoint refers to any more.

        Live references are the handles of the subtasks of checkpoints that are IN_PROGRESS or COMPLETED, and those of
        compacted runs. What the subsumed checkpoints refer to and nothing live does is garbage: `STAGED` handles go to
        the queue under owner `sink:<operator_id>`, all others under `storage`, and a `metadata_path` under `storage`.
        """
        ...

    def relabel(self, checkpoint_id: int, label: Label) -> None:
        """Replace the name and note of a savepoint."""
        ...

    def begin_commit(self, at: datetime) -> int:
        """Register the next attempt at committing sinks, seen now, and return it; an older one is overtaken."""
        ...

    def touch_committer(self, attempt: int, at: datetime) -> bool:
        """Record a sign of life. False if another attempt has taken over or it was ended."""
        ...

    def end_commit(self, attempt: int, problem: str | None = None) -> bool:
        """Record that an attempt has ended, and what was the problem if it has failed. False if another attempt has
        taken over or it was ended before."""
        ...

    def mark_notified(self, checkpoint_id: int, attempt: int, at: datetime, ends: bool = False) -> bool:
        """Record that this attempt has committed all sinks; the first record stays. If it `ends` with that, it is as
        after `end_commit`. False, and nothing is changed, if another attempt has taken over or it was ended."""
        ...

    def add_compactions(self, compactions: Sequence[CompactedRun]) -> None: ...
    def remove_compactions(self, paths: Sequence[str]) -> None:
        """Forget compacted runs by the path of their handle; a file that nothing live refers to is enqueued."""
        ...
