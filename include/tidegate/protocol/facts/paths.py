"""The names of files and directories, which are composed and parsed here and nowhere else.

On checkpoint storage:

    <pipeline>/chk-<id>/_metadata                            the checkpoint, complete in itself
    <pipeline>/chk-<id>/_committed                           the marker: it has completed
    <pipeline>/chk-<id>/<operator>/<subtask>-<attempt>-…     the files of an attempt at a checkpoint
    <pipeline>/chk-<id>/<operator>/<subtask>-compacted-…     a run that was merged in the background
    <pipeline>/shared/<attempt>/<operator>/…                 likewise, the files of an attempt of a region
    _savepoints/<pipeline>/chk-<id>/                         a canonical savepoint, see `canonical`
    _sinks/<pipeline>/<sink>/                                the root of a sink that has no directory of its own

Below a sink's root, staged files lie in a directory `chk-<id>`, and their names begin with `<subtask>-<attempt>-`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.protocol.facts.records import SubtaskId

_CHECKPOINT, _SHARED, _SAVEPOINTS, _SINKS = "chk-", "shared", "_savepoints", "_sinks"
_METADATA, _MARKER = "_metadata", "_committed"
#: A number as it is written into a name: no leading zeros, no other digits than these, no more than the database holds.
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")


def checkpoint_name(checkpoint_id: int) -> str:
    """Return the name of a checkpoint's directories, and of a sink's versions."""
    return f"{_CHECKPOINT}{checkpoint_id}"


def checkpoint_id_of(name: str) -> int | None:
    """Return the checkpoint that has this `checkpoint_name`; None if it is another kind of name."""
    return _number(name.removeprefix(_CHECKPOINT)) if name.startswith(_CHECKPOINT) else None


def directory(pipeline_id: str, checkpoint_id: int) -> str:
    """Return the directory that a checkpoint writes to, relative to the checkpoint storage."""
    return f"{pipeline_id}/{checkpoint_name(checkpoint_id)}"


def metadata_path(pipeline_id: str, checkpoint_id: int) -> str:
    return f"{directory(pipeline_id, checkpoint_id)}/{_METADATA}"


def marker_path(pipeline_id: str, checkpoint_id: int) -> str:
    return f"{directory(pipeline_id, checkpoint_id)}/{_MARKER}"


def marked_by(path: str) -> str | None:
    """Return the metadata whose commit this marker records; None if the file is no marker."""
    where, _, name = path.rpartition("/")
    return f"{where}/{_METADATA}" if name == _MARKER and _is_checkpoints(where) else None


def with_markers(paths: Iterable[str]) -> list[str]:
    """Add the marker before the path of each metadata. Deleted in this order, a marker never outlives its metadata."""
    marked: list[str] = []
    for path in paths:
        where, _, name = path.rpartition("/")
        if name == _METADATA and _is_checkpoints(where):
            marked.append(f"{where}/{_MARKER}")
        marked.append(path)
    return marked


def _is_checkpoints(where: str) -> bool:
    return checkpoint_id_of(where.rpartition("/")[2]) is not None


def default_location(pipeline_id: str, checkpoint_id: int) -> str:
    """Return the directory of a canonical savepoint whose owner names none. No pipeline's name begins so."""
    return f"{_SAVEPOINTS}/{pipeline_id}/{checkpoint_name(checkpoint_id)}"


def sink_directory(pipeline_id: str, sink: str) -> str:
    """Return the staging directory of a sink that has none of its own, relative to the checkpoint storage."""
    return f"{_SINKS}/{pipeline_id}/{sink}"


def shared_root(pipeline_id: str) -> str:
    """Return the directory below which regions write, relative to the checkpoint storage."""
    return f"{pipeline_id}/{_SHARED}"


def shared_directory(pipeline_id: str, attempt: int) -> str:
    """Return the directory that one attempt of a region writes to, relative to the checkpoint storage."""
    return f"{shared_root(pipeline_id)}/{attempt}"


@dataclass(frozen=True, slots=True)
class ByCheckpoint:
    """The file lies below the `directory` of this checkpoint."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class ByRegion:
    """The file lies below the `shared_directory` of this attempt."""

    attempt: int


def writer_of(pipeline_id: str, path: str) -> ByCheckpoint | ByRegion | None:
    """Read the writer of a file from its path; None if it is no checkpoint and no region of the pipeline. Performs no
    I/O."""
    if not path.startswith(f"{pipeline_id}/"):
        return None
    first, *below = path.removeprefix(f"{pipeline_id}/").split("/", 2)
    if below and (checkpoint_id := checkpoint_id_of(first)) is not None:
        return ByCheckpoint(checkpoint_id)
    if first == _SHARED and len(below) == 2 and (attempt := _number(below[0])) is not None:
        return ByRegion(attempt)
    return None


def operator_directory(below: str, operator_id: str) -> str:
    """Return the directory of an operator's files below the directory of a checkpoint or region."""
    return f"{below}/{operator_id}"


def attempt_prefix(subtask_index: int, attempt: int) -> str:
    """Return the prefix of the file names of a subtask's attempt, staged files included."""
    return f"{subtask_index}-{attempt}"


def write_prefix(below: str, subtask: SubtaskId, attempt: int) -> str:
    """Return the prefix of the paths of a subtask's attempt, to which each execution adds a part of its own."""
    return f"{operator_directory(below, subtask.operator_id)}/{attempt_prefix(subtask.subtask_index, attempt)}"


def compaction_prefix(below: str, subtask: SubtaskId) -> str:
    """Return the prefix of the path of a run that is merged from a subtask's runs."""
    return f"{operator_directory(below, subtask.operator_id)}/{subtask.subtask_index}-compacted"


def _number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None
