"""Which files are left over: the checkpoint or region that wrote them has ended, and nothing will refer to them.

A path says who wrote a file (`paths`). What a checkpoint in progress has written, or the region that runs, is never
left, nor what nobody knows the writer of. Whether something refers to a file that was left is another question: see
`retention.choose_unreferenced`.
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
    """A file that lies there, and who wrote it."""

    file: Deletion
    writer: ByCheckpoint | ByRegion


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Files that nothing refers to, and `foreign` checkpoints: a marker says that they have completed, but the database
    does not know them. It may be an older one than the storage. What they refer to may lie in any directory, so while
    there are such, no file counts as left."""

    files: Sequence[Deletion]
    foreign: Sequence[int]


def listed_on_storage(pipeline_id: str, paths: Iterable[str]) -> list[Listed]:
    """Those that a checkpoint or region of the pipeline wrote. Performs no I/O."""
    found = ((path, writer_of(pipeline_id, path)) for path in paths)
    return [Listed(Deletion(STORAGE, path), writer) for path, writer in found if writer is not None]


def checkpoints_of(listed: Iterable[Listed]) -> set[int]:
    """Checkpoints that wrote some of the files. Performs no I/O."""
    return {each.writer.checkpoint_id for each in listed if isinstance(each.writer, ByCheckpoint)}


def choose_left(
    listed: Sequence[Listed],
    known: Mapping[int, CheckpointRecord | None],
    latest: CheckpointRecord | None,
    region: RegionRecord,
    imports: Collection[int],
    now: datetime,
) -> list[Listed]:
    """Those whose writers have ended; none if there are `foreign` checkpoints. `known` has the record of each of
    `checkpoints_of`, `imports` are checkpoints to come, whose files are being copied in; all of it was looked up after
    the files were listed. Performs no I/O."""
    if find_foreign(listed, known):
        return []
    ended = {id_ for id_, record in known.items() if id_ not in imports and _has_ended(id_, record, latest, now)}
    return [
        each
        for each in listed
        if (
            each.writer.checkpoint_id in ended
            if isinstance(each.writer, ByCheckpoint)
            else _is_over(each.writer.attempt, region, now)
        )
    ]


def find_foreign(listed: Sequence[Listed], known: Mapping[int, CheckpointRecord | None]) -> list[int]:
    """See `Leftovers`. Performs no I/O."""
    marked = checkpoints_of(
        each for each in listed if each.file.owner == STORAGE and marked_by(each.file.path) is not None
    )
    return sorted(id_ for id_ in marked if known[id_] is None)


def _has_ended(
    checkpoint_id: int, record: CheckpointRecord | None, latest: CheckpointRecord | None, now: datetime
) -> bool:
    """One without a record was there before the database was recovered, or its number is only reserved. The pipeline
    has gone on since if a later one completed long ago."""
    if record is not None:
        return record.status is not Status.IN_PROGRESS
    if latest is None or latest.completed_at is None or checkpoint_id >= latest.checkpoint_id:
        return False
    return is_settled(latest.completed_at, now)


def _is_over(attempt: int, region: RegionRecord, now: datetime) -> bool:
    """Attempts that count as swept may be some that only a lost database knew."""
    if attempt > region.swept:
        return attempt <= last_ended(region)
    since = region.ended_at or region.started_at
    return since is not None and is_settled(since, now) and attempt <= last_ended(region)
