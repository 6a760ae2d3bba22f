"""What is answered about one checkpoint: its figures, phases, operators, subtasks, files, verdicts, failure and
requester. No logic.

Sizes are bytes, durations milliseconds, moments timezone-aware UTC; -1 means that nothing was reported. Fields that
Flink's REST API has too carry its names.
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
    """A step of the checkpoint: `TRIGGERED` (until all have acknowledged), `ACKNOWLEDGED` (until judged), `HELD`,
    `VALIDATED` (until the commit point), `COMPLETED` (until the sinks are notified), `NOTIFIED`, `FAILED`. `ended_at`
    is None while it lasts."""

    phase: str
    began_at: Moment
    ended_at: MomentOrNone


class SubtaskSpread(Document):
    """Over the subtasks that have acknowledged; all -1 without one. `skew` is the largest divided by the average."""

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
    """Over the subtasks of a task."""

    checkpointed_size: SubtaskSpread
    state_size: SubtaskSpread
    end_to_end_duration: SubtaskSpread
    checkpoint_duration: Durations
    alignment: Alignment
    start_delay: SubtaskSpread
    rows_in: SubtaskSpread
    rows_out: SubtaskSpread


class Task(Document):
    """Flink's task; an operator of ours, its subtasks together."""

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
    """A page of an operator's subtasks by index, with their files. `next_index` is what to give as `after` for the page
    after it, None after the last."""

    subtasks: tuple[Subtask, ...]
    next_index: int | None


class TaskWithSubtasks(Task):
    """`next_index` is what to give as `after` for the next page, null after the last."""

    subtasks: tuple[Subtask, ...]
    next_index: int | None


class TaskWithAll(Task):
    """A task with all of its subtasks; without any if the checkpoint has none on record."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    subtasks: tuple[Subtask, ...] = Field(default=(), exclude_if=lambda subtasks: not subtasks)


class FileLine(Document):
    """A file of a checkpoint: whose it is, and its handle with checksum. `view` has the key groups that are read."""

    operator_id: str
    subtask_index: int
    handle: Handle
    view: str = Field(exclude=True)


class FileList(Document):
    """A page of files, by operator, subtask and order. `next_key` is opaque; None after the last."""

    files: tuple[FileLine, ...]
    next_key: str | None


def _for_people(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Without digests, which say nothing to a person."""
    return [{name: value for name, value in each.items() if name not in (FAILING, APPROVED)} for each in results]


class Verdict(Document):
    """`success` is null if it could not be judged; `error` says why. `results` are those of Great Expectations.
    `carried_from` is the checkpoint that was judged, where this one has the same files; null if it was judged itself.
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
    """Why a checkpoint failed: the reason's sentence, the recorded message, what it means for the data, what to do."""

    reason: str
    sentence: str
    message: str
    advice: str


class Relations(Document):
    """How the checkpoint stands to restores: those that led to it, the one that left it behind, and the restore right
    before it was triggered. `forked_from` is said in words. `previous` and `next` are its neighbours in history."""

    restored_by: tuple[RestoreAt, ...]
    abandoned_by: RestoreAt | None
    follows_restore: RestoreAt | None
    forked_from: str | None
    previous: int | None
    next: int | None


class ForkedFrom(Document):
    """What a pipeline began with; of its first checkpoint."""

    pipeline: str
    checkpoint: int
    savepoint: str | None


class Hold(Document):
    """How a checkpoint waited for a person, and what was decided; null if nobody did."""

    held_at: Moment
    until_at: Moment
    message: str | None
    decision: Literal["APPROVED", "REJECTED"] | None
    decision_at: MomentOrNone
    decided_by: str | None
    comment: str | None


class Checkpoint(Document):
    """A checkpoint. `standing` is how it stands now, as pages and commands show it; `phase` is how far it came, also if
    it has ended. `tasks` are filled in only where one is asked for by its id."""

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
    #: Where a canonical copy is, or is being written until `exported_at`.
    location: str | None = Field(exclude=True)
    exported_at: datetime | None = Field(exclude=True)
    alignment_duration: int = Field(exclude=True)


class HistoryLine(Checkpoint):
    """`verdict` is null if nothing was judged; `held` says whether it waits for a person now. `dag_run` is the DAG run
    that asked, if one did."""

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
    phases: tuple[PhaseSpan, ...]
    verdicts: tuple[Verdict, ...]
    failure: Failure | None
    relations: Relations
    now: datetime = Field(exclude=True)


class WholeCheckpoint(CheckpointDetails):
    """A checkpoint with every subtask of each of its tasks."""

    tasks: Mapping[str, TaskWithAll]
