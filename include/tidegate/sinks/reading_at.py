"""The rows of a directory of Parquet files at a checkpoint, even after a rewind or later commits.

An appended table has the partitions of the checkpoint's branch, visible or withdrawn. They are read from few files if
a merged version has exactly those partitions. A table of current rows has the version of the checkpoint, or the files
that the checkpoint staged, as long as one of the two is kept.

No file changes once a reader can find it. So if files move in the meantime, a reader either finds the rows, or misses a
file and reads the directory again.
"""

import os
from collections.abc import Sequence
from contextlib import suppress

from tidegate.ports import TableFiles
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import CheckpointNotRetainedError, SinkError
from tidegate.protocol.facts.records import StateHandle
from tidegate.sinks import merged, publish, rewind
from tidegate.sinks.staging import confined
from tidegate.sinks.table_columns import columns_of_files
from tidegate.sinks.versions import version_of


def appended(root: str, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle] | None) -> TableFiles:
    """See `ports.ReadableAtSink`. Raises `SinkError`, `FileNotFoundError`."""
    _require_there(root, checkpoint_id)
    # A rewind makes a partition's second name before it takes the first one away. So one of these three listings finds
    # a partition that moves between them, in either direction.
    listings = (rewind.withdrawn(root), rewind.shown(root), rewind.withdrawn(root))
    ids = sorted({id_ for listing in listings for id_ in listing if id_ in branch})
    if staged and checkpoint_id not in ids:
        raise FileNotFoundError(f"{root}: the partition of checkpoint {checkpoint_id}")
    parts = _in_few_files(root, checkpoint_id, ids) or [_partition(root, id_) for id_ in ids]
    return _table(parts)


def current(root: str, checkpoint_id: int, staged: Sequence[StateHandle] | None) -> TableFiles:
    """See `appended`; this is for a table of current rows. Raise `CheckpointNotRetainedError` as well."""
    _require_there(root, checkpoint_id)
    if staged is not None and not staged:
        return _table([])  # the sink is younger than the checkpoint
    version = os.path.join(root, version_of(checkpoint_id))
    if staged is None:
        names = _names(version)
        if names is None:
            raise _not_kept(root, checkpoint_id)
        return _table([[os.path.join(version, name) for name in names]])
    wanted = {os.path.basename(handle.path): os.path.join(root, confined(handle.path)) for handle in staged}
    # A checkpoint in which nothing changed is shown by the version of an earlier one.
    shown, newest = publish.current_checkpoint(root), max(handle.created_by for handle in staged)
    earlier = [version_of(shown)] if shown is not None and newest <= shown < checkpoint_id else []
    for directory in (version, *(os.path.join(root, name) for name in earlier)):
        if wanted.keys() == set(_names(directory) or ()):
            return _table([[os.path.join(directory, name) for name in sorted(wanted)]])
    if all(os.path.exists(path) for path in wanted.values()):
        return _table([[wanted[name] for name in sorted(wanted)]])
    raise _not_kept(root, checkpoint_id)


def _in_few_files(root: str, checkpoint_id: int, ids: Sequence[int]) -> list[list[str]]:
    """Return the files of a merged version that has exactly these partitions; none if there is no such version."""
    base = os.path.join(root, merged.MERGED)
    if not ids or not os.path.isdir(base):
        return []
    shown = os.path.realpath(os.path.join(base, publish.CURRENT))
    for directory in (shown, *(os.path.join(base, version_of(id_)) for id_ in {checkpoint_id, ids[-1]})):
        if found := merged.parts_of(ids, _names(directory) or ()):
            return [[os.path.join(directory, name) for name in names] for names in found]
    return []


def _partition(root: str, checkpoint_id: int) -> list[str]:
    """Return the files of a partition. Raise `FileNotFoundError` if it has moved and moved back since it was listed."""
    shown, kept = rewind.places(root, checkpoint_id)
    for directory in (shown, kept, shown):
        if (names := _names(directory)) is not None:
            return [os.path.join(directory, name) for name in names]
    raise FileNotFoundError(shown)


def _names(directory: str) -> list[str] | None:
    with suppress(FileNotFoundError):
        return sorted(os.listdir(directory))
    return None


def _table(parts: Sequence[Sequence[str]]) -> TableFiles:
    """Return a table of these parts, oldest first. The files of one part have one schema."""
    return TableFiles(
        tuple(path for part in parts for path in part), columns_of_files([part[0] for part in parts if part])
    )


def _require_there(root: str, checkpoint_id: int) -> None:
    if not os.path.isdir(root):
        raise SinkError(
            f"{root} is not there, so it cannot be read as of checkpoint {checkpoint_id}: it is not mounted here, or "
            "the table was moved. Nothing was changed. Mount it, or set TIDEGATE_HOME to the project that it is in."
        )


def _not_kept(root: str, checkpoint_id: int) -> CheckpointNotRetainedError:
    return CheckpointNotRetainedError(
        f"{root} cannot be read as of checkpoint {checkpoint_id} any more: it was replaced by later ones. Nothing was "
        "changed. Read the latest checkpoint. ParquetSink(readable_for=…) sets how long a table stays readable after "
        "it was replaced, and CheckpointConfig(retained=…) how many checkpoints are kept as a whole."
    )
