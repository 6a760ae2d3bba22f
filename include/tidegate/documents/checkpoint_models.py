"""The types of the documents about checkpoints: those of `documents.checkpoints`, field by field.

Sizes are bytes, durations milliseconds, timestamps milliseconds since 1970; -1 means that there is none. Fields that
Flink's REST API has too carry its names.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from tidegate.protocol.facts.lifecycle import Phase
from tidegate.reading.answer import Document, Handle
from tidegate.reading.checkpoint_answers import Failure, PhaseSpan, Relations
from tidegate.reading.checkpoint_answers import SubtaskSpread as Spread
from tidegate.reading.history_answers import DagRun

Status = Literal["IN_PROGRESS", "COMPLETED", "FAILED"]
Kind = Literal["CHECKPOINT", "SAVEPOINT", "SYNC_SAVEPOINT"]


class ForkedFrom(Document):
    """What a pipeline began with; of its first checkpoint."""

    pipeline: str
    checkpoint: int
    savepoint: str | None


class Hold(Document):
    """How a checkpoint waited for a person, and what was decided."""

    held_timestamp: int
    until_timestamp: int
    message: str | None
    decision: Literal["APPROVED", "REJECTED"] | None
    decision_timestamp: int
    decided_by: str | None
    comment: str | None


class InFlight(Document):
    processed_data: int
    persisted_data: int
    alignment_buffered: int


class Durations(Document):
    sync: Spread
    async_: Spread = Field(alias="async")


class Alignment(Document):
    processed: Spread
    persisted: Spread
    duration: Spread


class TaskSummary(Document):
    """Over the subtasks of a task."""

    checkpointed_size: Spread
    state_size: Spread
    end_to_end_duration: Spread
    checkpoint_duration: Durations
    alignment: Alignment
    start_delay: Spread
    rows_in: Spread
    rows_out: Spread


class Task(InFlight):
    """Flink's task; an operator of ours."""

    id: str
    role: str
    parallelism: int
    max_parallelism: int
    status: Status
    latest_ack_timestamp: int
    end_to_end_duration: int
    checkpointed_size: int
    state_size: int
    rows_in: int
    rows_out: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    num_finished_subtasks: int
    attempt: int
    files: int
    unaligned_checkpoint: bool
    summary: TaskSummary


class SubtaskAlignment(Document):
    duration: int
    processed: int
    persisted: int


class SubtaskDurations(Document):
    sync: int
    async_: int = Field(alias="async")


class Subtask(Document):
    index: int
    status: Literal["pending_or_failed", "completed"]
    attempt: int
    ack_timestamp: int
    end_to_end_duration: int
    finished: bool
    start_delay: int
    alignment: SubtaskAlignment
    unaligned_checkpoint: bool
    checkpoint: SubtaskDurations
    rows_in: int
    rows_out: int
    checkpointed_size: int
    state_size: int
    position: dict[str, Any] | None
    handles: list[Handle]


class TaskWithSubtasks(Task):
    """`next_index` is what to give as `after` for the next page, null after the last."""

    subtasks: list[Subtask]
    next_index: int | None


class Verdict(Document):
    """`success` is null if it could not be judged; `error` says why. `results` are those of Great Expectations.
    `carried_from` is the checkpoint that was judged, where this one has the same files; null if it was judged itself.
    """

    target: str
    suite: str
    success: bool | None
    evaluated: int
    failed: int
    error: str | None
    docs_path: str | None
    carried_from: int | None
    results: list[dict[str, Any]]


class Checkpoint(InFlight):
    """A checkpoint. `standing` is how it stands now, as pages and commands show it; `phase` is how far it came, also if
    it has ended. `tasks` are filled in only where one is asked for by its id."""

    id: int
    checkpoint_type: Literal[Kind, "UNALIGNED_CHECKPOINT"]
    is_savepoint: bool
    savepointFormat: Literal["NATIVE", "CANONICAL"] | None
    savepoint_location: str | None
    savepoint_size: int | None
    name: str | None
    note: str | None
    drain: bool
    status: Status
    phase: Phase
    standing: str
    subsumed: bool
    discarded: bool
    abandoned: bool
    request_id: str
    periodic: bool
    forked_from: ForkedFrom | None
    trigger_timestamp: int
    deadline_timestamp: int
    latest_ack_timestamp: int
    validated_timestamp: int
    completed_timestamp: int
    notified_timestamp: int
    end_to_end_duration: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    num_finished_subtasks: int
    checkpointed_size: int
    state_size: int
    rows_in: int
    rows_out: int
    external_path: str | None
    failure_timestamp: int
    failure_reason: str | None
    failure_message: str | None
    hold: Hold | None
    tasks: Mapping[str, Task]


class HistoryLine(Checkpoint):
    """`verdict` is null if nothing was judged; `held` says whether it waits for a person now."""

    verdict: bool | None
    held: bool
    dag_run: DagRun | None


class CheckpointDetails(Checkpoint):
    """One that is `folded` ended long ago: its tasks say what they came to, and have no subtasks and files any more.
    `advice` says what to do about it, null if nothing."""

    held: bool
    advice: str | None
    folded: bool
    dag_run: DagRun | None
    phases: list[PhaseSpan]
    verdicts: list[Verdict]
    failure: Failure | None
    relations: Relations
