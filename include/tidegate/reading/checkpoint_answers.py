"""Answers about one checkpoint: its figures, phases, operators, subtasks, files, verdicts, failure and requester. No
logic.

Sizes are bytes, durations are milliseconds, moments are timezone-aware UTC; -1 means that no value was reported. Fields
that Flink's REST API has too carry its names.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer

from tidegate.protocol.facts.lifecycle import Phase
from tidegate.protocol.steps.verdicts import APPROVED, FAILING
from tidegate.reading.answer import Document, Handle, Moment, MomentOrNone, Number, RestoreAt
from tidegate.reading.standing import Standing

Status = Literal["IN_PROGRESS", "COMPLETED", "FAILED"]
Kind = Literal["CHECKPOINT", "SAVEPOINT", "SYNC_SAVEPOINT"]
StandingInWords = Annotated[Standing, PlainSerializer(lambda standing: standing.text, return_type=str)]


class DagRun(Document):
    dag_id: str
    run_id: str


class PhaseSpan(Document):
    """A step of the checkpoint.

    `TRIGGERED` lasts until all subtasks have acknowledged, `ACKNOWLEDGED` until validation, `HELD` until approval,
    `VALIDATED` until the commit point, `COMPLETED` until the sinks are notified. `NOTIFIED` and `FAILED` are final.
    `ended_at` is None while a step lasts.
    """

    phase: str
    began_at: Moment
    ended_at: MomentOrNone


class SubtaskSpread(Document):
    """Smallest, average and largest value over the subtasks that have acknowledged; all -1 without one. `skew` is the
    largest divided by the average.
    """

    min: Number
    avg: Number
    max: Number
    skew: Number


class Durations(Document):
    sync: SubtaskSpread
    async_: SubtaskSpread = Field(serialization_alias="async")


class Alignment(Document):
    processed: SubtaskSpread
    persisted: SubtaskSpread
    duration: SubtaskSpread


class TaskSummary(Document):
    """Each figure over the subtasks of a task."""

    checkpointed_size: SubtaskSpread
    state_size: SubtaskSpread
    end_to_end_duration: SubtaskSpread
    checkpoint_duration: Durations
    alignment: Alignment
    start_delay: SubtaskSpread
    rows_in: SubtaskSpread
    rows_out: SubtaskSpread


class Task(Document):
    """A task in Flink's sense: an operator with all of its subtasks."""

    id: str
    role: str
    parallelism: int
    max_parallelism: int
    status: Status
    acknowledged_at: MomentOrNone = Field(serialization_alias="latest_ack_timestamp")
    end_to_end_duration: int
    checkpointed_size: int
    state_size: int
    processed_data: int
    persisted_data: int
    alignment_buffered: int
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
    async_: int = Field(serialization_alias="async")


class Subtask(Document):
    index: int
    status: Literal["pending_or_failed", "completed"]
    attempt: int
    acknowledged_at: MomentOrNone = Field(serialization_alias="ack_timestamp")
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
    position: Mapping[str, Any] | None
    handles: tuple[Handle, ...]


class SubtaskList(Document):
    """A page of an operator's subtasks by index, with their files. Give `next_index` as `after` for the next page; it
    is None after the last.
    """

    subtasks: tuple[Subtask, ...]
    next_index: int | None


class TaskWithSubtasks(Task):
    """A task with a page of its subtasks. Give `next_index` as `after` for the next page; it is null after the last."""

    subtasks: tuple[Subtask, ...]
    next_index: int | None


class TaskWithAll(Task):
    """A task with all of its subtasks; with none if the checkpoint has none on record."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    subtasks: tuple[Subtask, ...] = Field(default=(), exclude_if=lambda subtasks: not subtasks)


class FileLine(Document):
    """A file of a checkpoint: its subtask, and its handle with checksum. `view` has the key groups that are read."""

    operator_id: str
    subtask_index: int
    handle: Handle
    view: str = Field(exclude=True)


class FileList(Document):
    """A page of files, by operator, subtask and order. `next_key` is opaque; None after the last."""

    files: tuple[FileLine, ...]
    next_key: str | None


def _for_people(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Remove digests, which mean nothing to a reader."""
    return [{name: value for name, value in result.items() if name not in (FAILING, APPROVED)} for result in results]


class Verdict(Document):
    """The verdict on one target.

    `success` is null if validation was not possible; `error` is the reason. `results` are those of Great Expectations.
    If an earlier checkpoint with the same files was validated instead, `carried_from` is its id, else null.
    """

    target: Annotated[str, BeforeValidator(str)]
    suite: str
    success: bool | None
    evaluated: int
    failed: int
    error: str | None
    docs_path: str | None
    carried_from: int | None
    results: Annotated[tuple[Mapping[str, Any], ...], BeforeValidator(_for_people)]


class Failure(Document):
    """The failure of a checkpoint: the reason's sentence, the recorded message, the consequence for the data, and
    advice.
    """

    reason: str
    sentence: str
    message: str
    advice: str


class Relations(Document):
    """The restores around a checkpoint: those to it, the one that abandoned it, and the one right before it was
    triggered.

    `forked_from` is a sentence. `previous` and `next` are its neighbours in history.
    """

    restored_by: tuple[RestoreAt, ...]
    abandoned_by: RestoreAt | None
    follows_restore: RestoreAt | None
    forked_from: str | None
    previous: int | None
    next: int | None


class ForkedFrom(Document):
    """The origin of a forked pipeline, on its first checkpoint."""

    pipeline: str
    checkpoint: int
    savepoint: str | None


class Hold(Document):
    """The hold of a checkpoint and the decision on it; null if it never waited for approval."""

    held_at: Moment
    until_at: Moment
    message: str | None
    decision: Literal["APPROVED", "REJECTED"] | None
    decision_at: MomentOrNone
    decided_by: str | None
    comment: str | None


class Checkpoint(Document):
    """A checkpoint.

    `standing` is its current status in words, as pages and commands show it. `phase` is the last phase that it reached,
    even if it has ended. `tasks` are filled in only where one checkpoint is requested by its id.
    """

    id: int
    checkpoint_type: Literal[Kind, "UNALIGNED_CHECKPOINT"]
    is_savepoint: bool
    savepoint_format: Literal["NATIVE", "CANONICAL"] | None = Field(serialization_alias="savepointFormat")
    savepoint_location: str | None
    savepoint_size: int | None
    name: str | None
    note: str | None
    drain: bool
    status: Status
    phase: Phase
    standing: StandingInWords
    subsumed: bool
    discarded: bool
    abandoned: bool
    request_id: str
    periodic: bool
    forked_from: ForkedFrom | None
    triggered_at: Moment = Field(serialization_alias="trigger_timestamp")
    deadline: Moment = Field(serialization_alias="deadline_timestamp")
    acknowledged_at: MomentOrNone = Field(serialization_alias="latest_ack_timestamp")
    validated_at: MomentOrNone
    completed_at: MomentOrNone
    notified_at: MomentOrNone
    end_to_end_duration: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    num_finished_subtasks: int
    checkpointed_size: int
    state_size: int
    processed_data: int
    persisted_data: int
    alignment_buffered: int
    rows_in: int
    rows_out: int
    external_path: str | None
    failed_at: MomentOrNone = Field(serialization_alias="failure_timestamp")
    failure_reason: str | None
    failure_message: str | None
    hold: Hold | None
    tasks: Mapping[str, Task]
    #: The location of a canonical copy, which is complete from `exported_at` on.
    location: str | None = Field(exclude=True)
    exported_at: datetime | None = Field(exclude=True)
    alignment_duration: int = Field(exclude=True)


class HistoryLine(Checkpoint):
    """A checkpoint in the history. `verdict` is null if nothing was validated; `held` is whether it waits for approval
    now. `dag_run` is the DAG run that requested it, if one did.
    """

    verdict: bool | None
    held: bool
    dag_run: DagRun | None


class CheckpointDetails(Checkpoint):
    """A checkpoint with its tasks. If it is `folded`, it ended long ago: its tasks have totals, but no subtasks and
    files. `advice` is null if there is nothing to do.
    """

    held: bool
    advice: str | None
    folded: bool
    dag_run: DagRun | None
    phases: tuple[PhaseSpan, ...]
    verdicts: tuple[Verdict, ...]
    failure: Failure | None
    relations: Relations
    now: datetime = Field(exclude=True)


class WholeCheckpoint(CheckpointDetails):
    """A checkpoint with every subtask of each of its tasks."""

    tasks: Mapping[str, TaskWithAll]
