"""Takes a directory of Parquet files back to an earlier checkpoint, and forward again.

    _withdrawn/checkpoint=<id>/   append: rows of a checkpoint that a restore has left behind

As in `publish`, files get a second name before they lose the first, so an interrupted rewind loses nothing. Every step
that readers notice is one rename out of or into the attempt's own directory, which fences older attempts.
"""

import os
from collections.abc import Collection, Sequence

from tidegate.ports import CommitAttempt, Withdrawn
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.records import StateHandle
from tidegate.sinks import publish
from tidegate.sinks.fencing import PrivateDirectory, committing
from tidegate.sinks.versions import note_replaced

_WITHDRAWN = "_withdrawn"


def append(
    root: str,
    checkpoint_id: int,
    branch: Branch,
    attempt: CommitAttempt,
    view: publish.View | None = None,
) -> None:
    """Show the partitions of the branch's checkpoints and no others, also in the view."""
    if not os.path.isdir(root):
        return
    with committing(root, checkpoint_id, attempt) as private:
        os.makedirs(os.path.join(root, _WITHDRAWN), exist_ok=True)
        for id_ in shown(root):
            if id_ not in branch:
                _move(private, _shown(root, id_), _kept(root, id_), attempt)
        for id_ in withdrawn(root):
            if id_ in branch:
                _move(private, _kept(root, id_), _shown(root, id_), attempt)
        if view is not None:
            view.rewind(private, checkpoint_id, shown(root), attempt)


def replace(root: str, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
    """Make `current` show the restored checkpoint, even if it shows a later one. A checkpoint that staged nothing is
    older than the sink, which then shows nothing."""
    if not os.path.isdir(root):
        return
    with committing(root, checkpoint_id, attempt) as private:
        if staged:
            publish.show_version(root, private, checkpoint_id, staged, attempt)
        elif (current := publish.current_checkpoint(root)) is not None:
            note_replaced(root, current)
            private.take_away(os.path.join(root, publish.CURRENT))
            note_replaced(root, current)
        publish.sync(root)


def shown(root: str) -> list[int]:
    """Return the checkpoints whose partitions readers see, oldest first."""
    return publish.partitions(root)


def places(root: str, checkpoint_id: int) -> tuple[str, str]:
    """Return the directories of a checkpoint's partition: while readers see it, and while it is withdrawn."""
    return _shown(root, checkpoint_id), _kept(root, checkpoint_id)


def withdrawn(root: str) -> list[int]:
    return publish.partitions(os.path.join(root, _WITHDRAWN))


def shown_outside(root: str, branch: Branch) -> list[Withdrawn]:
    """See `ports.RewindableSink`, for an appended table."""
    found = [_measured(_shown(root, id_), id_) for id_ in shown(root) if id_ not in branch]
    return [partition for partition in found if partition is not None]


def replaced(root: str, branch: Branch) -> list[Withdrawn]:
    """Return the version of a table of current rows, if that is of another branch."""
    current = publish.current_checkpoint(root)
    if current is None or current in branch:
        return []
    found = _measured(os.path.realpath(os.path.join(root, publish.CURRENT)), current)
    return [] if found is None else [found]


def delete_withdrawn(root: str, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None:
    if not checkpoint_ids:
        return
    with committing(root, max(checkpoint_ids), attempt) as private:
        for id_ in checkpoint_ids:
            private.take_away(_kept(root, id_))


def _move(private: PrivateDirectory, source: str, target: str, attempt: CommitAttempt) -> None:
    """Give every file a name in `target` before it loses the one in `source`. If a crash left both, they are the same
    files."""
    if not os.path.isdir(target):
        gathered = private.join(os.path.basename(source))
        os.mkdir(gathered)
        for name in sorted(os.listdir(source)):
            attempt.keep()
            publish.link(os.path.join(source, name), os.path.join(gathered, name), attempt.keep)
        publish.sync(gathered)
        os.rename(gathered, target)
        publish.sync(os.path.dirname(target))
    private.take_away(source)
    publish.sync(os.path.dirname(source))


def _shown(root: str, checkpoint_id: int) -> str:
    return os.path.join(root, f"{publish.PARTITION}{checkpoint_id}")


def _kept(root: str, checkpoint_id: int) -> str:
    return os.path.join(root, _WITHDRAWN, f"{publish.PARTITION}{checkpoint_id}")


def _measured(directory: str, checkpoint_id: int) -> Withdrawn | None:
    """Return the size of a partition; None if another process has taken it away since it was listed."""
    try:
        sizes = [os.path.getsize(os.path.join(directory, name)) for name in os.listdir(directory)]
    except FileNotFoundError:
        return None
    return Withdrawn(checkpoint_id, len(sizes), sum(sizes))
