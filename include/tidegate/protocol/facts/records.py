"""The nouns of the protocol: the records of checkpoints, and the reports of their subtasks.

All are immutable values. Sizes are bytes, durations milliseconds, timestamps timezone-aware UTC; -1 means "not
reported" as in protocol.md section 19.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from tidegate.protocol.facts.keygroups import KeyGroupRange
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.reasons import FailureReason


@dataclass(frozen=True, slots=True, order=True)
class SubtaskId:
    """One of the `parallelism` slices of an operator. A source's subtasks are its splits, in their order."""

    operator_id: str
    subtask_index: int

    def __str__(self) -> str:
        return f"{self.operator_id}/{self.subtask_index}"


class HandleKind(StrEnum):
    """The kind of a snapshot's file. All but the staged ones are on checkpoint storage.

    Attributes:
        RUN: Sorted keyed state, carried from checkpoint to checkpoint.
        POSITION: The position of a source split, carried likewise.
        EXCHANGE: Rows on their way to a downstream operator, of this checkpoint only.
        CHANNEL: Such rows, captured by an unaligned checkpoint: a restore needs them.
        STAGED: Rows that a sink will make visible (a committable), below the sink's own root.
    """

    RUN = "RUN"
    POSITION = "POSITION"
    EXCHANGE = "EXCHANGE"
    CHANNEL = "CHANNEL"
    STAGED = "STAGED"


@dataclass(frozen=True, slots=True)
class StateHandle:
    """One file of a snapshot: its place, its size and its checksum.

    Attributes:
        path: Relative to the checkpoint storage's root, or for `STAGED` to the sink's.
        kind: The kind of the file.
        rows: The number of its rows.
        bytes: Its size.
        checksum: The SHA-256 of the file in hex, as `sha256sum` prints it.
        created_by: The checkpoint that wrote the file. A handle with an older one is carried over.
        key_groups: For keyed state, the key groups that are read from the file; None for all.
        details: Small JSON that its writer needs later.
    """

    path: str
    kind: HandleKind
    rows: int
    bytes: int
    checksum: str
    created_by: int
    key_groups: KeyGroupRange | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def view(self) -> str:
        """The file and, for keyed state, the key groups that are read from it: after a rescale several subtasks may
        share a file."""
        return self.path if self.key_groups is None else f"{self.path}[{self.key_groups.first}-{self.key_groups.last}]"


@dataclass(frozen=True, slots=True)
class SubtaskMetrics:
    """The metrics that a subtask reports with its snapshot (protocol.md section 19)."""

    start_delay: int = -1
    alignment_duration: int = -1
    sync_duration: int = -1
    async_duration: int = -1
    processed_bytes: int = -1
    persisted_bytes: int = -1
    rows_in: int = -1
    rows_out: int = -1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A subtask's part of a checkpoint.

    Attributes:
        handles: Its files, those of older checkpoints included.
        position: The position of a source split: JSON that only the source understands.
        finished: Whether nothing will ever follow it (protocol.md section 13). An operator that has finished keeps its
            keyed state, which Flink drops. The state is the user's data, and is read and validated long after the last
            row.
    """

    handles: tuple[StateHandle, ...] = ()
    position: Mapping[str, Any] | None = None
    finished: bool = False

    def state_size(self) -> int:
        """Sum up the bytes of its files, those of older checkpoints and those that others share included.

        Returns:
            The bytes.
        """
        return sum(handle.bytes for handle in self.handles)

    def checkpointed_size(self, checkpoint_id: int) -> int:
        """Sum up the bytes that a checkpoint has written.

        Args:
            checkpoint_id: The checkpoint.

        Returns:
            The bytes.
        """
        return sum(handle.bytes for handle in self.handles if handle.created_by == checkpoint_id)


@dataclass(frozen=True, slots=True)
class Pending:
    """The input that a poll of one split has found and left for later.

    Attributes:
        pieces: The number of pieces.
        unit: The source's unit, such as `files`.
        bytes: Their size; -1 if the source does not know it.
        parts: The number of pieces of each named part of the split, such as a partition of a topic.
    """

    pieces: int
    unit: str
    bytes: int = -1
    parts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A subtask's report that its snapshot is safe on storage. It counts only if `attempt` is the current one."""

    subtask: SubtaskId
    attempt: int
    snapshot: Snapshot
    metrics: SubtaskMetrics = SubtaskMetrics()
    pending: Pending | None = None  # input that the poll of a split has left; no part of the checkpoint


class AcknowledgeResult(StrEnum):
    """The four answers to an acknowledgement (protocol.md section 5.1)."""

    SUCCESS = "SUCCESS"  # first of this attempt: counted, state kept
    DUPLICATE = "DUPLICATE"  # same attempt again: nothing changes, the first one owns the state
    UNKNOWN = "UNKNOWN"  # not expected, or of another attempt: its new files are garbage
    DISCARDED = "DISCARDED"  # the checkpoint has ended: its new files are garbage


@dataclass(frozen=True, slots=True)
class OperatorPlan:
    """An operator as a checkpoint expects it."""

    operator_id: str
    parallelism: int
    max_parallelism: int


@dataclass(frozen=True, slots=True)
class SubtaskRecord:
    """A subtask's row: expected, and perhaps acknowledged. With `attempt` 0 it has not been triggered yet, or had
    finished before."""

    subtask: SubtaskId
    attempt: int
    acknowledged_at: datetime | None = None
    snapshot: Snapshot = Snapshot()
    metrics: SubtaskMetrics = SubtaskMetrics()


class Decision(StrEnum):
    """The manual decision on a checkpoint that was held."""

    APPROVED = "APPROVED"  # its rows are wanted although a verdict failed
    REJECTED = "REJECTED"


@dataclass(frozen=True, slots=True)
class Decided:
    """A manual decision: by whom, when, and in `comment` the reason, if one was given."""

    decision: Decision
    at: datetime
    by: str
    comment: str | None = None


class CheckpointKind(StrEnum):
    CHECKPOINT = "CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"  # requested by the user, and kept (docs/decisions/015-savepoints.md)
    SYNC_SAVEPOINT = "SYNC_SAVEPOINT"  # stops the pipeline, which is FINISHED once its sinks have committed


@dataclass(frozen=True, slots=True)
class CheckpointRequest:
    """A request for a checkpoint, which may have to wait (protocol.md section 3).

    A `forced` one starts although checkpoints are in progress. It arrived at `asked_at`, and its requester last
    repeated it at `seen_at`. `dropped` is the reason why it will never start, which its requester has not read yet.
    With `drain` the pipeline stops for ever, and all inputs count as ended. `name` and `note` are those of a savepoint.
    """

    request_id: str
    kind: CheckpointKind
    periodic: bool
    forced: bool
    asked_at: datetime
    seen_at: datetime
    dropped: FailureReason | None = None
    dropped_message: str | None = None
    drain: bool = False
    name: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """A checkpoint's row.

    `request_id` identifies its request (an Airflow `run_id`); a request never completes twice. `num_finished` of its
    subtasks reported that nothing will follow. With `drain` it is the pipeline's last checkpoint. `abandoned_by` is the
    restore that left it behind. A savepoint's `name` and `note` may change. `location` is the directory of its
    canonical copy, which is being written until `exported_at` and has `exported_size` bytes. A held checkpoint waits
    for manual approval from `held_at` until `held_until` at most, because of `held_message`. The fields of the decision
    record the outcome. `committed_sinks` are the operator ids of the sinks whose rows became visible in the transaction
    that completed it.
    """

    pipeline_id: str
    checkpoint_id: int
    request_id: str
    periodic: bool
    status: Status
    phase: Phase
    triggered_at: datetime
    deadline: datetime
    num_subtasks: int
    num_acknowledged: int = 0
    operators: tuple[OperatorPlan, ...] = ()
    acknowledged_at: datetime | None = None
    validated_at: datetime | None = None
    completed_at: datetime | None = None
    failed_at: datetime | None = None
    failure_reason: FailureReason | None = None
    failure_message: str | None = None
    notified_at: datetime | None = None
    metadata_path: str | None = None
    state_size: int = 0
    checkpointed_size: int = 0
    kind: CheckpointKind = CheckpointKind.CHECKPOINT
    num_finished: int = 0
    drain: bool = False
    abandoned_by: int | None = None
    name: str | None = None
    note: str | None = None
    location: str | None = None
    exported_at: datetime | None = None
    exported_size: int | None = None
    held_at: datetime | None = None
    held_until: datetime | None = None
    held_message: str | None = None
    decision: Decision | None = None
    decided_at: datetime | None = None
    decided_by: str | None = None
    decision_comment: str | None = None
    committed_sinks: tuple[str, ...] = ()

    @property
    def ends_at(self) -> datetime:
        """The time until which it may stay in progress: its deadline, or the hold's deadline while it is held."""
        if self.phase is Phase.HELD:
            assert self.held_until is not None
            return self.held_until
        return self.deadline

    @property
    def decided(self) -> Decided | None:
        if self.decision is None:
            return None
        assert self.decided_at is not None
        assert self.decided_by is not None
        return Decided(self.decision, self.decided_at, self.decided_by, self.decision_comment)

    def moved(self, **changes: Any) -> "CheckpointRecord":
        """Return a copy with some fields changed. The caller makes sure that the transition is legal."""
        return replace(self, **changes)


#: The fields of a checkpoint's row about its hold and the decision.
OF_HOLD = ("held_at", "held_until", "held_message", "decision", "decided_at", "decided_by", "decision_comment")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The validator's result for one target.

    `success` None means that the validation itself failed; `error` is then the cause. `results` has one JSON object per
    expectation, with `type`, `kwargs`, `success`, `observed`, `element_count`, `unexpected_count`,
    `unexpected_percent`, `unexpected_samples`, `unexpected_rows` (their keys), `details` and `error`. `carried_from` is
    the checkpoint that was validated, if this one has the same files; None if it was validated itself. `basis` is a
    digest of everything that a good verdict depends on; None if it cannot carry over
    (`protocol.steps.carried_verdicts`).
    """

    target: Target
    suite: str
    success: bool | None
    evaluated: int
    failed: int
    results: tuple[Mapping[str, Any], ...] = ()
    error: str | None = None
    docs_path: str | None = None
    carried_from: int | None = None
    basis: str | None = None


@dataclass(frozen=True, slots=True)
class CompactedRun:
    """A run merged from the runs that it `replaces` (their views, oldest first). It is used from the next checkpoint
    on."""

    subtask: SubtaskId
    handle: StateHandle
    replaces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deletion:
    """A file that nothing refers to any more. `owner` is `names.STORAGE`, or `names.staged_by` a sink for a path below
    that sink's root."""

    owner: str
    path: str
