"""Savepoints as their owner sees them (protocol.md sections 9 and 18). A savepoint has a name and a note, which may
change. Only its owner ends it.

A name belongs to one savepoint of a pipeline at a time, from its trigger on. A savepoint that fails or is disposed of
sets its name free. Without a name, a savepoint is identified by its number.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.protocol.facts.branches import Restore, find_unfinished
from tidegate.protocol.facts.errors import CheckpointNotFoundError, IllegalRequestError, SavepointInUseError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord

LONGEST_NAME = 100
LONGEST_NOTE = 2000


@dataclass(frozen=True, slots=True)
class Label:
    """The name of a savepoint, None for its number, and its owner's note."""

    name: str | None = None
    note: str | None = None


UNLABELLED = Label()


def require_legal_label(kind: CheckpointKind, label: Label) -> None:
    """Check that only a savepoint has a name, and that the name is not a number. Raises `IllegalRequestError`. Performs
    no I/O."""
    name, note = label.name, label.note
    if kind is CheckpointKind.CHECKPOINT and (name is not None or note is not None):
        raise IllegalRequestError(
            "A checkpoint has no name and no note: newer ones replace it. Nothing was triggered. Request a savepoint."
        )
    if name is not None and (not name.isprintable() or not 1 <= len(name.strip()) == len(name) <= LONGEST_NAME):
        raise IllegalRequestError(
            f"{name[:LONGEST_NAME]!a} cannot name a savepoint: a name has 1 to {LONGEST_NAME} printable "
            "characters, with no space around them. Nothing was changed."
        )
    if name is not None and name.isdecimal():
        raise IllegalRequestError(
            f"{name} cannot name a savepoint: numbers are the ids of checkpoints. Nothing was changed. Use a name with "
            "a letter."
        )
    if note is not None and len(note) > LONGEST_NOTE:
        raise IllegalRequestError(
            f"The note has {len(note)} characters, but may have {LONGEST_NOTE}. Nothing was changed."
        )


def require_free(name: str | None, holder: CheckpointRecord | None) -> None:
    """Check that no savepoint has the name. `holder` is the one in progress or completed that has it. Raises
    `IllegalRequestError`. Performs no I/O."""
    if name is not None and holder is not None:
        raise IllegalRequestError(
            f"Savepoint {holder.checkpoint_id} of pipeline {holder.pipeline_id} is already called {name!r}. Nothing "
            "was changed. Use another name, or give that savepoint another one with `tidegate rename "
            f"{holder.pipeline_id} {name} NEW`."
        )


def find_savepoint(pipeline_id: str, wanted: str, savepoints: Sequence[CheckpointRecord]) -> CheckpointRecord:
    """Find the savepoint of this name or number. Raises `CheckpointNotFoundError`. Performs no I/O."""
    for record in savepoints:
        if wanted in (record.name, str(record.checkpoint_id)):
            return record
    known = ", ".join(record.name or str(record.checkpoint_id) for record in savepoints)
    raise CheckpointNotFoundError(
        f"Pipeline {pipeline_id} has no savepoint {wanted!r} in this database. Nothing was changed. "
        + (f"It has: {known}." if known else f"It has none; `tidegate savepoint {pipeline_id}` takes one.")
    )


def choose_savepoints(completed: Sequence[CheckpointRecord]) -> list[CheckpointRecord]:
    """Choose the savepoints among completed checkpoints, oldest first. Performs no I/O."""
    kept = [record for record in completed if record.kind is not CheckpointKind.CHECKPOINT]
    return sorted(kept, key=lambda record: record.checkpoint_id)


def require_disposable(record: CheckpointRecord, latest: CheckpointRecord | None, restores: Sequence[Restore]) -> None:
    """Check that nothing needs a savepoint that is to be disposed of. Files that others share with it stay in any case.

    Raises `SavepointInUseError`. Performs no I/O.
    """
    assert record.status is Status.COMPLETED
    unfinished = find_unfinished(restores)
    if latest is not None and latest.checkpoint_id == record.checkpoint_id:
        why = "the pipeline goes on from it. Take another checkpoint first"
    elif record.abandoned_by is None and record.notified_at is None:
        why = "its sinks have not committed yet. Run the notify step first"
    elif unfinished is not None and unfinished.goes_on_from == record.checkpoint_id:
        why = "a restore to it is not finished. Run the pipeline, or repeat the restore, first"
    else:
        return
    raise SavepointInUseError(
        f"Savepoint {record.name or record.checkpoint_id} of pipeline {record.pipeline_id} was not disposed of: {why}. "
        "Nothing was changed."
    )


def require_exportable(record: CheckpointRecord) -> None:
    """Check that a savepoint's sinks have committed. A canonical copy holds no staged rows of appended tables, so that
    rows which were never committed would be missing from it.

    Raises `IllegalRequestError`. Performs no I/O.
    """
    if record.abandoned_by is not None and record.notified_at is None:
        name = record.name or record.checkpoint_id
        raise IllegalRequestError(
            f"Savepoint {name} of pipeline {record.pipeline_id} cannot be canonical: a restore left it behind before "
            "its sinks had committed, so its rows are in no table. Nothing was changed. It can be restored as it is: "
            f"`tidegate restore {record.pipeline_id} --savepoint {name!r}`; then take another one."
        )
