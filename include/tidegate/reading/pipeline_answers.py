"""Answers about pipelines: the need of each, its graph, options, sources, state and tables. No logic.

Sizes are bytes, durations are milliseconds, moments are timezone-aware UTC; -1 means that no value was reported, None
that there is no such thing.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum
from typing import Annotated, Any

from pydantic import Field, PlainSerializer, WithJsonSchema

from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.observing.doubts import DoubtReason
from tidegate.reading.answer import Document, Handle, Moment, MomentOrNone, RestoreAt, milliseconds
from tidegate.reading.lag_answers import Lag, LagOfSource


class Need(IntEnum):
    """The attention that a pipeline needs; the most urgent comes first in a list."""

    DECISION = 0  # a failed verdict is held for approval
    RESUME = 1  # the pipeline has FAILED
    LOOK = 2  # its latest checkpoints failed, or one in progress is past its deadline
    DELIVERY = 3  # a completed checkpoint's sinks are not all committed, and no process works on it
    NOTHING = 4  # it is running
    WAITS = 5  # suspended, stopping, or never started
    ENDED = 6  # finished or cancelled


_NAMES = {"enum": [need.name for need in Need], "type": "string"}
NeedByName = Annotated[Need, PlainSerializer(lambda need: need.name, return_type=str), WithJsonSchema(_NAMES)]


class PipelineLine(Document):
    """One pipeline in the list of all.

    `lag` is that of all its sources, by unit; empty if none has reported. `failures_in_a_row` are checkpoints that
    failed by themselves (`FailureReason.is_fault`) since the last completed one and the last resume; `last_failure` is
    the reason of the newest. `held` are checkpoints that wait for approval, `in_doubt` completed ones of which not
    every sink was notified yet. `last_verdict` is that of the newest validated checkpoint, over all of its targets.
    """

    pipeline_id: str
    need: NeedByName
    status: str
    since: MomentOrNone
    message: str | None
    latest_completed: int | None
    completed_at: MomentOrNone
    end_to_end_duration: int
    age: int
    lag: tuple[Lag, ...]
    state_size: int
    in_progress: int
    held: tuple[int, ...]
    overdue: int
    in_doubt: int
    failures_in_a_row: int
    last_failure: str | None
    last_verdict: bool | None
    validated_checkpoint: int | None
    dags: tuple[str, ...]


class PipelineList(Document):
    """A page of `total` pipelines, the most urgent first. `next_key` leads to the next page; None after the last."""

    lines: tuple[PipelineLine, ...]
    next_key: str | None
    total: int


class PipelineAt(Document):
    """A pipeline's row. `since` and `message` belong to its status. Failures up to `forgiven_until` do not count."""

    pipeline_id: str
    status: PipelineStatus
    since: MomentOrNone
    message: str | None
    forgiven_until: int
    stale_since: Annotated[datetime | None, PlainSerializer(lambda at: at and milliseconds(at), return_type=int | None)]


class Dag(Document):
    """A DAG that has requested checkpoints of the pipeline."""

    dag_id: str
    last_seen_at: Moment


class Vertex(Document):
    """A source, operator or sink at one checkpoint, over all of its subtasks.

    `role` is `source`, `operator` or `sink`. `inputs` are the operator ids that it reads from, None if the checkpoint
    does not record them. `type` and `place` are those of a source or sink. `definition` is its entry in `_metadata`.
    `positions` are those of a source's splits, in their order.
    """

    operator_id: str
    name: str
    role: str
    parallelism: int
    max_parallelism: int
    inputs: tuple[str, ...] | None
    type: str | None
    place: str | None
    guarantee: str | None
    commits: str | None
    definition: Mapping[str, Any]
    num_acknowledged: int
    num_finished: int
    rows_in: int
    rows_out: int
    state_size: int
    state_rows: int
    checkpointed_size: int
    positions: tuple[Mapping[str, Any] | None, ...]


class WaitingRequest(Document):
    """A request for a checkpoint that could not start yet, or that was dropped before its requester was notified."""

    request_id: str
    kind: CheckpointKind
    asked_at: Moment
    seen_at: Moment
    name: str | None
    dropped: str | None
    message: str | None


class Overview(Document):
    """A pipeline at its latest completed checkpoint, or at its newest if none has completed.

    `vertices` are those of `checkpoint_id`. `region_attempt` counts the pipeline's continuous regions; the newest was
    last seen at `region_seen_at`, and is still running unless it has `region_ended_at`.
    """

    pipeline: PipelineAt
    line: PipelineLine
    dags: tuple[Dag, ...]
    checkpoint_id: int | None
    vertices: tuple[Vertex, ...]
    region_attempt: int
    region_seen_at: MomentOrNone
    region_ended_at: MomentOrNone
    restores: tuple[RestoreAt, ...]
    can_undo: bool = Field(exclude=True)
    waiting_requests: tuple[WaitingRequest, ...]
    files_to_delete: int


class Option(Document):
    """One option of `CheckpointConfig` at a checkpoint. If it has `changed`, `before` is its previous value."""

    name: str
    value: Any
    before: Any = None
    changed: bool = False


class OptionsAt(Document):
    """The options at one checkpoint, by name. `against` is the checkpoint that they are compared with."""

    checkpoint_id: int
    completed_at: MomentOrNone
    against: int | None
    options: tuple[Option, ...]

    @property
    def changes(self) -> tuple[Option, ...]:
        return tuple(option for option in self.options if option.changed)


class Externalization(Document):
    enabled: bool
    delete_on_cancellation: bool


class Configuration(Document):
    """The configuration, named as Flink names it where it has the same setting.

    `options` are those of `CheckpointConfig` by name, at the latest checkpoint. `changes` lists the options that
    changed, by checkpoint, for the checkpoints whose `_metadata` is kept, newest first. `unreadable` are the
    checkpoints whose `_metadata` could not be read, with the reason.
    """

    mode: str | None
    interval: int | None
    timeout: int | None
    min_pause: int | None
    max_concurrent: int | None
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool | None
    aligned_checkpoint_timeout: int | None
    tolerable_failed_checkpoints: int | None
    checkpoints_after_tasks_finish: bool | None
    state_changelog_enabled: bool
    options: Mapping[str, Any]
    checkpoint: int | None
    changes: tuple[OptionsAt, ...]
    unreadable: Mapping[int, str]
    latest: OptionsAt | None = Field(exclude=True)


class Split(Document):
    """One split of a source at a checkpoint, with its position. `files` list the files read, if it records them."""

    index: int
    position: Mapping[str, Any] | None
    finished: bool
    rows_out: int
    files: tuple[Handle, ...]


class SourceAt(Document):
    """A source at a checkpoint; `lag` is the current one, as of its last poll."""

    operator_id: str
    name: str
    type: str | None
    place: str | None
    splits: tuple[Split, ...]
    lag: LagOfSource | None = None


class FileRead(Document):
    path: str
    bytes: int


class FilesRead(Document):
    """The files that a split of a source has read in one checkpoint: `total`, and the first of them. `total` is None if
    the source keeps no such list; then its position describes the data read.
    """

    operator_id: str
    index: int
    checkpoint_id: int
    total: int | None
    files: tuple[FileRead, ...]


class StateSlice(Document):
    """The keyed state of one subtask."""

    index: int
    runs: int
    rows: int
    bytes: int
    new_bytes: int


class StateAt(Document):
    """The keyed state of an operator at a checkpoint.

    `rows` counts the rows in its files, so a key counts once for each run that contains it. A run that several subtasks
    share counts once here, and in the slice of each. `oldest_run` is the checkpoint that wrote the oldest one.
    `compacted` runs take effect at the next checkpoint.
    """

    operator_id: str
    parallelism: int
    max_parallelism: int
    runs: int
    rows: int
    bytes: int
    new_bytes: int
    oldest_run: int | None
    compacted: int
    slices: tuple[StateSlice, ...]


class KeyColumn(Document):
    """A key column. `type` is the name of its type in Spark."""

    name: str
    type: str


class KeyAt(Document):
    """The row of a key at a checkpoint, None without one. `problem`: why it is unreadable. `changed`: since before."""

    checkpoint_id: int
    completed_at: MomentOrNone
    row: Mapping[str, Any] | None
    problem: str | None = None
    changed: bool = False


class KeyLookup(Document):
    """A key of an operator's state at a checkpoint. `history` covers the retained checkpoints, newest first; it is not
    `complete` if there are more than were read. Without a `key`, only its columns are given.
    """

    operator_id: str
    checkpoint_id: int
    key_columns: tuple[KeyColumn, ...]
    key: Mapping[str, str | None] | None = None
    row: Mapping[str, Any] | None = None
    history: tuple[KeyAt, ...] = ()
    complete: bool = True


class DoubtAt(Document):
    """A completed checkpoint that not every table shows yet; or, with the number of a `restore`, the checkpoint that
    tables are to return to.

    `sinks` are those that may not show it. `why`, `readers` (the rows they see meanwhile) and `advice` are sentences;
    `problem` is the error of the last attempt.
    """

    pipeline_id: str
    checkpoint_id: int
    restore: int | None
    since: Moment
    duration: int
    reason: DoubtReason
    sinks: tuple[str, ...]
    problem: str | None
    why: str
    readers: str
    advice: str


class TableAt(Document):
    """The rows that a sink shows.

    `shows` is the newest checkpoint whose rows the sink was notified to show. `in_doubt` are completed ones whose
    delivery is not confirmed yet, oldest first; a sink in the commit has none. `rewinding` is the restore that it still
    has to follow.
    """

    sink: str
    operator_id: str
    type: str | None
    place: str | None
    guarantee: str | None
    commits: str | None
    shows: int | None
    shown_at: MomentOrNone
    rows: int
    in_doubt: tuple[int, ...]
    rewinding: int | None
