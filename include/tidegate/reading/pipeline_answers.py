"""What is answered about pipelines: what each needs, its graph, options, sources, state and tables. No logic.

Sizes are bytes, durations milliseconds, moments timezone-aware UTC; -1 means that nothing was reported, None that there
is no such thing.
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
    """What a pipeline needs somebody for; the most urgent comes first in a list."""

    DECISION = 0  # a failed verdict is held for a person to approve or reject
    RESUME = 1  # the pipeline has FAILED
    LOOK = 2  # its latest checkpoints failed, or one in progress is past its deadline
    DELIVERY = 3  # a completed checkpoint's sinks are not all committed, and nobody is at it
    NOTHING = 4  # it runs
    WAITS = 5  # suspended, stopping, or never started
    ENDED = 6  # finished or cancelled


_NAMES = {"enum": [each.name for each in Need], "type": "string"}
NeedByName = Annotated[Need, PlainSerializer(lambda need: need.name, return_type=str), WithJsonSchema(_NAMES)]


class PipelineLine(Document):
    """One pipeline in the list of all. `lag` is that of all its sources, by unit; empty if none has said.

    `failures_in_a_row` are checkpoints that failed by themselves (`FailureReason.is_fault`) since the last one
    completed and the last resume, `last_failure` the reason of the newest of them. `held` are checkpoints that wait for
    a decision, `in_doubt` completed ones that not every sink was told of yet. `last_verdict` is that of the newest
    checkpoint that was judged, on all of its targets.
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
    judged_checkpoint: int | None
    dags: tuple[str, ...]


class PipelineList(Document):
    """A page of pipelines, the most urgent first. `next_key` is what to ask for the page after this one, None after the
    last. `total` counts all that the user may read."""

    lines: tuple[PipelineLine, ...]
    next_key: str | None
    total: int


class PipelineAt(Document):
    """As its row has it. `since` is when it reached its status, `message` says why. Failures of checkpoints up to
    `forgiven_until` no longer count."""

    pipeline_id: str
    status: PipelineStatus
    since: MomentOrNone
    message: str | None
    forgiven_until: int
    stale_since: Annotated[datetime | None, PlainSerializer(lambda at: at and milliseconds(at), return_type=int | None)]


class Dag(Document):
    """A DAG that has asked for checkpoints of the pipeline."""

    dag_id: str
    last_seen_at: Moment


class Vertex(Document):
    """A source, operator or sink at one checkpoint, all of its subtasks together.

    `role` is `source`, `operator` or `sink`. `inputs` are the operator ids it reads from, None if the checkpoint does
    not say. `type` and `place` are those of a source or sink. `definition` is what `_metadata` says of it.
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
    """A request for a checkpoint that could not start yet, or was dropped and its requester has not heard of it."""

    request_id: str
    kind: CheckpointKind
    asked_at: Moment
    seen_at: Moment
    name: str | None
    dropped: str | None
    message: str | None


class Overview(Document):
    """A pipeline at its latest completed checkpoint. Without one, `vertices` has what is recorded of its newest.

    `checkpoint_id` is the checkpoint that the vertices are of. `region_attempt` counts its continuous regions; the
    newest was last seen at `region_seen_at`, unless it has ended.
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
    """One option of `CheckpointConfig` as a checkpoint recorded it. `before` is its value at the checkpoint before, if
    `changed`."""

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
    """Flink's configuration where the thing is the same; `options` are those of `CheckpointConfig` by name, at the
    latest checkpoint, and `changes` what was changed at which of those before it whose `_metadata` is kept, newest
    first. `unreadable` are checkpoints whose `_metadata` could not be read, and why."""

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
    """One split of a source at a checkpoint: where it is, and what it has read on the way there. `files` hold the names
    of what was read, if the source keeps such; a handle made by this checkpoint is new in it."""

    index: int
    position: Mapping[str, Any] | None
    finished: bool
    rows_out: int
    files: tuple[Handle, ...]


class SourceAt(Document):
    """A source at a checkpoint; `lag` is that of now, as far as its last poll has seen."""

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
    """The files that a split of a source has read in one checkpoint: `total`, and the first of them. None if the source
    keeps no such list: then its position says what it has read."""

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
    """The keyed state of an operator at a checkpoint. `rows` counts those in its files, so a key counts once for each
    run that has it. A run that several subtasks share counts once here, and in the slice of each of them. `oldest_run`
    is the checkpoint that wrote the oldest one. `compacted` runs wait for the next one."""

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
    """`type` is its name in Spark."""

    name: str
    type: str


class KeyAt(Document):
    """The row of a key at a checkpoint, None if it had none, or why that cannot be read. `changed`: it was another one
    at the checkpoint before."""

    checkpoint_id: int
    completed_at: MomentOrNone
    row: Mapping[str, Any] | None
    problem: str | None = None
    changed: bool = False


class KeyLookup(Document):
    """A key of an operator's state at a checkpoint. `history` is of the checkpoints that are kept, newest first, not
    `complete` if there are more than were read. Without a `key`, only its columns are known."""

    operator_id: str
    checkpoint_id: int
    key_columns: tuple[KeyColumn, ...]
    key: Mapping[str, str | None] | None = None
    row: Mapping[str, Any] | None = None
    history: tuple[KeyAt, ...] = ()
    complete: bool = True


class DoubtAt(Document):
    """A completed checkpoint that not every table shows yet; or, with the number of a `restore`, the one that tables
    are to go back to. `sinks` are those that may not show it. `why`, `readers` (what they see meanwhile) and `advice`
    are sentences, `problem` is what the last attempt has failed by."""

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
    """What a sink shows. `shows` is the newest checkpoint whose rows it was told to show, `in_doubt` are completed ones
    of which it is not known yet, oldest first; there are none of a sink in the commit. `rewinding` is the restore that
    it still has to follow."""

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
