"""Questions that need files: a key of an operator's state, at one checkpoint and at the retained ones, and the files
that a source has read.

The database names the files; then only files are read. The work is bounded for every request: the number of
checkpoints, the time, and the number of simultaneous look-ups in a process.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import BoundedSemaphore

from sqlalchemy import Connection

from tidegate.ports import KeyReader
from tidegate.postgres import reads, snapshots
from tidegate.protocol.facts.errors import CheckpointError, IllegalRequestError, OperatorNotFoundError, StorageError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import CheckpointRecord, HandleKind, StateHandle, SubtaskId
from tidegate.protocol.schema.operator_state import OperatorState, choose_history, choose_kept, require_state, state_of
from tidegate.reading.need import utc
from tidegate.reading.pipeline_answers import FileRead, FilesRead, KeyAt, KeyColumn, KeyLookup

#: The number of newest checkpoints in a history, and the time after which it is cut short.
MOST_CHECKPOINTS = 20
LONGEST = timedelta(seconds=5)
#: The number of files listed for a split.
MOST_FILES = 200
#: The number of simultaneous look-ups in a process, and the seconds that another one waits for its turn.
_AT_ONCE = 2
_PATIENCE = 2.0


@dataclass(frozen=True, slots=True)
class States:
    """The location of an operator's state, at the requested checkpoint and at the retained ones, newest first.

    `more` is set if more checkpoints are retained than listed.
    """

    requested: OperatorState
    kept: Sequence[tuple[CheckpointRecord, OperatorState | None]]
    more: bool


@dataclass(frozen=True, slots=True)
class Split:
    """A split of a source at a checkpoint, and the files that hold its list of files read."""

    pipeline_id: str
    checkpoint_id: int
    subtask: SubtaskId
    lists: Sequence[StateHandle]


def find_states(connection: Connection, pipeline_id: str, operator_id: str, checkpoint_id: int | None) -> States:
    """Find the state of an operator at the given checkpoint, or at the latest completed one.

    Raises:
        CheckpointNotFoundError: If there is no such checkpoint.
        CheckpointNotRetainedError: If its state is no longer kept.
        OperatorNotFoundError: If the checkpoint has no such operator with state.
    """
    kept = reads.with_status(connection, pipeline_id, Status.COMPLETED)
    found = None if checkpoint_id is None else reads.checkpoint(connection, pipeline_id, checkpoint_id)
    record = choose_kept(pipeline_id, kept, checkpoint_id, found)
    state = _state_at(connection, record, operator_id)
    if state is None:  # raises the error that lists the operators with state
        state = require_state(record, snapshots.subtasks_of(connection, pipeline_id, record.checkpoint_id), operator_id)
    history = choose_history(kept)[::-1]
    newest = [(retained, _state_at(connection, retained, operator_id)) for retained in history[:MOST_CHECKPOINTS]]
    return States(state, newest, len(history) > MOST_CHECKPOINTS)


def _state_at(connection: Connection, record: CheckpointRecord, operator_id: str) -> OperatorState | None:
    plans = [plan for plan in record.operators if plan.operator_id == operator_id]
    only = [SubtaskId(operator_id, index) for plan in plans for index in range(plan.parallelism)]
    return state_of(
        record, snapshots.subtasks_of(connection, record.pipeline_id, record.checkpoint_id, only), operator_id
    )


def find_split(connection: Connection, pipeline_id: str, subtask: SubtaskId, checkpoint_id: int | None) -> Split:
    """Find a split of a source at a completed checkpoint, by default the latest.

    Raises:
        CheckpointNotFoundError: If there is no such checkpoint.
        CheckpointNotRetainedError: If its state is no longer kept.
        OperatorNotFoundError: If the checkpoint has no such split.
    """
    kept = reads.with_status(connection, pipeline_id, Status.COMPLETED)
    found = None if checkpoint_id is None else reads.checkpoint(connection, pipeline_id, checkpoint_id)
    record = choose_kept(pipeline_id, kept, checkpoint_id, found)
    reported = snapshots.subtasks_of(connection, pipeline_id, record.checkpoint_id, [subtask]).get(subtask)
    if reported is None:
        raise OperatorNotFoundError(
            f"Checkpoint {record.checkpoint_id} of pipeline {pipeline_id} has no split {subtask}. Nothing was changed."
        )
    lists = [handle for handle in reported.snapshot.handles if handle.kind is HandleKind.POSITION]
    return Split(pipeline_id, record.checkpoint_id, subtask, lists)


class Lookups:
    """Reader of state and position files. Thread-safe."""

    def __init__(self, keys: KeyReader, now: Callable[[], datetime]) -> None:
        self._keys = keys
        self._now = now
        self._turns = BoundedSemaphore(_AT_ONCE)

    def look_up(self, states: States, key: Sequence[str | None] | None) -> KeyLookup:
        """Return the row of a key, and its history over the retained checkpoints.

        Raises:
            IllegalRequestError: If the key does not fit the key columns.
            StorageError: If a file cannot be read.
            StateIntegrityError: If a file is damaged.
            StateSchemaError: If a file's schema is unknown.
            ConfigurationError: If the storage is not configured.
        """
        with self._turn():
            return self._look_up(states, key)

    def files_read(self, split: Split) -> FilesRead:
        """Return the files that a split has read.

        Raises:
            StorageError: If a file cannot be read.
            StateIntegrityError: If a file is damaged.
            StateSchemaError: If a file's schema is unknown.
        """
        id_ = split.checkpoint_id
        if not split.lists:
            return _files_read(split, None)
        _require_own(split.pipeline_id, split.lists)
        with self._turn():
            own = [handle for handle in split.lists if handle.created_by == id_]
            read = [file for handle in own for file in self._keys.files_of(handle, id_)]
        return _files_read(split, read)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._turns.acquire(timeout=_PATIENCE):
            raise StorageError("This server is busy with other look-ups. Nothing was read or changed. Try again.")
        try:
            yield
        finally:
            self._turns.release()

    def _look_up(self, states: States, key: Sequence[str | None] | None) -> KeyLookup:
        state = states.requested
        for there in (state, *(past for _, past in states.kept if past is not None)):
            _require_own(there.pipeline_id, there.runs)
        columns = tuple(KeyColumn(name=name, type=type_) for name, type_ in self._keys.key_columns(state))
        answer = KeyLookup(operator_id=state.operator_id, checkpoint_id=state.checkpoint_id, key_columns=columns)
        if key is None:
            return answer
        until = self._now() + LONGEST
        row = self._keys.row_of(state, key)
        history: list[KeyAt] = []
        for retained, past in states.kept:
            if self._now() >= until:
                break
            history.append(self._at(retained, past, key))
        named_key = {column.name: value for column, value in zip(columns, key, strict=True)}
        complete = len(history) == len(states.kept) and not states.more
        fields = {"key": named_key, "row": row, "history": _marked(history), "complete": complete}
        return answer.model_copy(update=fields)

    def _at(self, record: CheckpointRecord, state: OperatorState | None, key: Sequence[str | None]) -> KeyAt:
        """Look the key up at one checkpoint. An error becomes a `problem`: other checkpoints may be readable."""
        row, problem = None, None
        try:
            row = None if state is None else self._keys.row_of(state, key)
        except IllegalRequestError:
            problem = "This checkpoint has other key columns."
        except CheckpointError as error:
            problem = str(error)
        completed_at = utc(record.completed_at)
        return KeyAt(checkpoint_id=record.checkpoint_id, completed_at=completed_at, row=row, problem=problem)


def _require_own(pipeline_id: str, files: Sequence[StateHandle]) -> None:
    """Raise `StorageError` unless all files lie below the pipeline's directory.

    The permission to read one pipeline must not open a file of another.
    """
    for file in files:
        if not file.path.startswith(f"{pipeline_id}/"):
            raise StorageError(
                f"A file on record for pipeline {pipeline_id} belongs to another pipeline. Nothing was read. Check "
                "that the database was not changed by hand."
            )


def _marked(history: Sequence[KeyAt]) -> tuple[KeyAt, ...]:
    """Mark the rows that differ from the checkpoint before. The order is newest first."""
    return tuple(
        now.model_copy(update={"changed": _changed(now, before)})
        for now, before in zip(history, [*history[1:], None], strict=False)
    )


def _changed(now: KeyAt, before: KeyAt | None) -> bool:
    return before is not None and now.row != before.row and not (now.problem or before.problem)


def _files_read(split: Split, read: Sequence[tuple[str, int]] | None) -> FilesRead:
    return FilesRead(
        operator_id=split.subtask.operator_id,
        index=split.subtask.subtask_index,
        checkpoint_id=split.checkpoint_id,
        total=None if read is None else len(read),
        files=tuple(FileRead(path=path, bytes=size) for path, size in (read or ())[:MOST_FILES]),
    )
