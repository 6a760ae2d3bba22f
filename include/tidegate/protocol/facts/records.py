"""The nouns of the protocol: what is recorded about a checkpoint and what its parts report.

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
    """What a file of a snapshot is. All but the staged ones are on checkpoint storage.

    Attributes:
        RUN: Sorted keyed state, carried from checkpoint to checkpoint.
        POSITION: What a source split has read, carried likewise.
        EXCHANGE: Rows on their way to a downstream operator, of this checkpoint only.
        CHANNEL: Such rows, captured by an unaligned checkpoint: a restore needs them.
        STAGED: What a sink will make visible (a committable), below the sink's own root.
    """

    RUN = "RUN"
    POSITION = "POSITION"
    EXCHANGE = "EXCHANGE"
    CHANNEL = "CHANNEL"
    STAGED = "STAGED"


@dataclass(frozen=True, slots=True)
class StateHandle:
    """Where a piece of a snapshot lies.

    Attributes:
        path: Relative to the checkpoint storage's root, or for `STAGED` to the sink's.
        kind: What the file is.
        rows: The number of its rows.
        bytes: Its size.
        checksum: The SHA-256 of the file in hex, as `sha256sum` prints it.
        created_by: The checkpoint that wrote the file. A handle with an older one is carried over.
        key_groups: Of keyed state, the key groups that are read from it; None for all.
        details: Small JSON that its writer needs to find again.
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
    """What a subtask reports beside its snapshot (protocol.md section 19)."""

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
        position: Of a source split, what it has read: JSON that only the source understands.
        finished: Whether nothing will ever follow it (protocol.md section 13). An operator that finished keeps its
            keyed state, which Flink drops: it is the user's data, to be read and validated long after the last row.
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
    """What a poll of one split has found and left for later.

    Attributes:
        pieces: How much.
        unit: What the source counts in, such as `files`.
        bytes: Its size; -1 if the source does not know.
        parts: How much of each part that the split has by name, such as the partitions of a topic.
    """

    pieces: int
    unit: str
    bytes: int = -1
    parts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A subtask's report that its snapshot is safe on storage. Counts only if `attempt` is the current one."""

    subtask: SubtaskId
    attempt: int
    snapshot: Snapshot
    metrics: SubtaskMetrics = SubtaskMetrics()
    pending: Pending | None = None  # what the poll of a source's split has left; no part of the checkpoint


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
    """A subtask's row: expected, and perhaps acknowledged. `attempt` 0: not asked yet, or finished before."""

    subtask: SubtaskId
    attempt: int
    acknowledged_at: datetime | None = None
    snapshot: Snapshot = Snapshot()
    metrics: SubtaskMetrics = SubtaskMetrics()


class Decision(StrEnum):
    """What a person decided about a checkpoint that was held."""

    APPROVED = "APPROVED"  # its rows are wanted although a verdict failed
    REJECTED = "REJECTED"


@dataclass(frozen=True, slots=True)
class Decided:
    """Who decided what, and when; `comment` says why, if they said so."""

    decision: Decision
    at: datetime
    by: str
    comment: str | None = None


class CheckpointKind(StrEnum):
    CHECKPOINT = "CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"  # asked for by a person, and kept (docs/decisions/015-savepoints.md)
    SYNC_SAVEPOINT = "SYNC_SAVEPOINT"  # stops the pipeline, which is FINISHED once its sinks have committed


@dataclass(frozen=True, slots=True)
class CheckpointRequest:
    """A request for a checkpoint, which may have to wait (protocol.md section 3).

    A `forced` one starts although checkpoints are in progress. `asked_at` is when it arrived, `seen_at` when its
    requester last repeated it. `dropped` says why it will never start; its requester has not heard of that yet.
    `drain`: stop for ever, all inputs count as ended. `name` and `note` are those of a savepoint.
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
    """A checkpoint's row. `request_id` names who asked (an Airflow `run_id`); a request never completes twice.
    `num_finished` of its subtasks reported that nothing will follow. With `drain` it is the pipeline's last checkpoint.
    `abandoned_by` is the restore that left it behind; None while the pipeline has it behind it. `name` and `note` are
    what the owner of a savepoint says about it, and may change. `location` is the directory where a canonical copy of a
    savepoint is, or is being written until `exported_at`; that has `exported_size` bytes. One that was held waited from
    `held_at` for a person, at most until `held_until`, because of what `held_message` says; `decision`, `decided_at`,
    `decided_by` and `decision_comment` are what became of that. `committed_sinks` are the operator ids of the sinks
    whose rows became visible in the transaction that completed it.
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
        """Until when it may stay in progress: while it is held, the hold's own deadline takes the place of its own."""
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
        """A copy with some fields changed; the caller makes sure that the transition is legal."""
        return replace(self, **changes)


#: What a checkpoint's row says of its hold, and of what was decided.
OF_HOLD = ("held_at", "held_until", "held_message", "decision", "decided_at", "decided_by", "decision_comment")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the validator found about one target.

    `success` None means that the judgement itself failed; `error` then says how. `results` is one JSON object per
    expectation, with `type`, `kwargs`, `success`, `observed`, `element_count`, `unexpected_count`,
    `unexpected_percent`, `unexpected_samples`, `unexpected_rows` (their keys), `details` and `error`. `carried_from` is
    the checkpoint that was judged, where this one has the same files; None if it was judged itself. `basis` is a digest
    of what a good verdict depends on, None if it cannot carry over (`protocol.steps.carried_verdicts`).
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
    """A run merged from the runs it `replaces` (their views, oldest first); used from the next checkpoint on."""

    subtask: SubtaskId
    handle: StateHandle
    replaces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deletion:
    """A file nothing refers to any more. `owner` is `names.STORAGE`, or `names.staged_by` a sink for a path below that
    sink's root."""

    owner: str
    path: str
