"""Leftover files: the checkpoint or region that wrote them has ended, and nothing will refer to them.

A path names the writer of a file (`paths`). Files of a checkpoint in progress, of the region that runs, or of an
unknown writer are never leftovers. See `retention.choose_unreferenced` for references to leftover files.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.protocol.cleaning.retention import is_settled
from tidegate.protocol.continuous.regions import RegionRecord, last_ended
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import STORAGE
from tidegate.protocol.facts.paths import ByCheckpoint, ByRegion, marked_by, writer_of
from tidegate.protocol.facts.records import CheckpointRecord, Deletion


@dataclass(frozen=True, slots=True)
class Listed:
    """A file from a listing, and its writer."""

    file: Deletion
    writer: ByCheckpoint | ByRegion


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Files that nothing refers to, and `foreign` checkpoints, which have the marker of a completed one but are unknown
    to the database. The database may be older than the storage. The files of foreign checkpoints may lie in any
    directory, so while there are such checkpoints, no file counts as a leftover."""

    files: Sequence[Deletion]
    foreign: Sequence[int]


def listed_on_storage(pipeline_id: str, paths: Iterable[str]) -> list[Listed]:
    """Choose the files that a checkpoint or region of the pipeline wrote. Performs no I/O."""
    written = ((path, writer_of(pipeline_id, path)) for path in paths)
    return [Listed(Deletion(STORAGE, path), writer) for path, writer in written if writer is not None]


def checkpoints_of(listed: Iterable[Listed]) -> set[int]:
    """Return the checkpoints that wrote some of the files. Performs no I/O."""
    return {each.writer.checkpoint_id for each in listed if isinstance(each.writer, ByCheckpoint)}


def choose_left(
    listed: Sequence[Listed],
    known: Mapping[int, CheckpointRecord | None],
    latest: CheckpointRecord | None,
    region: RegionRecord,
    imports: Collection[int],
    now: datetime,
) -> list[Listed]:
    """Choose the files whose writers have ended; none if there are `foreign` checkpoints. `known` has the record of
    each of `checkpoints_of`. `imports` are future checkpoints, whose files are being copied in. All facts must be read
    after the files were listed. Performs no I/O."""
    if find_foreign(listed, known):
        return []
    ended = {id_ for id_, record in known.items() if id_ not in imports and _has_ended(id_, record, latest, now)}
    return [
        entry
        for entry in listed
        if (
            entry.writer.checkpoint_id in ended
            if isinstance(entry.writer, ByCheckpoint)
            else _is_over(entry.writer.attempt, region, now)
        )
    ]


def find_foreign(listed: Sequence[Listed], known: Mapping[int, CheckpointRecord | None]) -> list[int]:
    """Find foreign checkpoints (see `Leftovers`). Performs no I/O."""
    marked = checkpoints_of(
        each for each in listed if each.file.owner == STORAGE and marked_by(each.file.path) is not None
    )
    return sorted(id_ for id_ in marked if known[id_] is None)


def _has_ended(
    checkpoint_id: int, record: CheckpointRecord | None, latest: CheckpointRecord | None, now: datetime
) -> bool:
    """Whether a checkpoint has ended. One without a record is older than a recovery of the database, or its number is
    only reserved. Then it has ended if a later one completed long ago."""
    if record is not None:
        return record.status is not Status.IN_PROGRESS
    if latest is None or latest.completed_at is None or checkpoint_id >= latest.checkpoint_id:
        return False
    return is_settled(latest.completed_at, now)


def _is_over(attempt: int, region: RegionRecord, now: datetime) -> bool:
    """Whether a region's attempt has ended. Attempts that count as swept may be known to a lost database only."""
    if attempt > region.swept:
        return attempt <= last_ended(region)
    since = region.ended_at or region.started_at
    return since is not None and is_settled(since, now) and attempt <= last_ended(region)
