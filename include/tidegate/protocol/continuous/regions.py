"""Continuous regions in the protocol: the process that may act as one, its sign of life, and its own files.

A region writes state and positions between checkpoints, before it knows any checkpoint's id, in a directory of its
attempt. Attempts fence: only the newest one may begin snapshots, and only until it is ended. Only its directory may
hold files that no checkpoint refers to yet.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidegate.protocol.facts.clocks import is_ahead, is_over
from tidegate.protocol.facts.errors import PipelineFailedError, PipelineStatusError, SupersededAttemptError
from tidegate.protocol.facts.names import STORAGE
from tidegate.protocol.facts.paths import ByRegion, shared_directory, writer_of
from tidegate.protocol.facts.pipelines import ACTIVE, PipelineRecord, PipelineStatus
from tidegate.protocol.facts.records import CheckpointRequest, Deletion, Snapshot, SubtaskId

#: A region without a sign of life for this long counts as dead. Others may take its place, and need not wait for it.
REGION_LEASE = timedelta(minutes=1)
#: The time between two signs of life. Each one wakes every process that waits for a change of the pipeline.
SIGN_EVERY = REGION_LEASE / 4


@dataclass(frozen=True, slots=True)
class RegionRecord:
    """The newest region of a pipeline. `attempt` 0: there never was one. `seen_at` None: none runs.

    It ended at `ended_at`, None while it runs. The directories of attempts up to `swept` are not searched any more.
    """

    attempt: int = 0
    started_at: datetime | None = None
    seen_at: datetime | None = None
    ended_at: datetime | None = None
    swept: int = 0


@dataclass(frozen=True, slots=True)
class RegionStart:
    """The start of a newly registered region: the latest completed checkpoint and its snapshots, compactions applied.
    Without a completed checkpoint, None and no snapshots."""

    attempt: int
    checkpoint_id: int | None
    restored: Mapping[SubtaskId, Snapshot]


@dataclass(frozen=True, slots=True)
class RegionPoll:
    """The pipeline and the queued requests, as a region reads them."""

    pipeline: PipelineRecord
    requests: Sequence[CheckpointRequest] = ()


@dataclass(frozen=True, slots=True)
class NoRegion:
    """No region runs. Scheduled attempts take the snapshots."""


@dataclass(frozen=True, slots=True)
class LiveRegion:
    """A region runs. It alone takes the pipeline's snapshots."""


@dataclass(frozen=True, slots=True)
class DeadRegion:
    """The region has given no sign of life for longer than its lease. It must be ended before another process begins a
    snapshot."""

    seen_at: datetime


def decide_presence(region: RegionRecord, now: datetime) -> NoRegion | LiveRegion | DeadRegion:
    """Decide who takes the pipeline's snapshots now. Performs no I/O."""
    if region.seen_at is None:
        return NoRegion()
    return LiveRegion() if now - region.seen_at <= REGION_LEASE else DeadRegion(region.seen_at)


def is_current(region: RegionRecord, attempt: int) -> bool:
    """Whether this attempt is the newest and was not ended, alive or not. Performs no I/O."""
    return region.seen_at is not None and region.attempt == attempt


def superseded_error(pipeline_id: str, region: RegionRecord, attempt: int) -> SupersededAttemptError:
    """Return the error of an attempt that is not current. It names the successor if there is one. Performs no I/O."""
    if region.attempt > attempt:
        what = f"was superseded by attempt {region.attempt}"
        then = "the later attempt continues from the latest completed checkpoint"
    else:
        what = (
            "was ended by another process: it gave no sign of life for too long, or its pipeline has ended or was "
            "restored"
        )
        then = "the next region continues from the latest completed checkpoint"
    return SupersededAttemptError(
        f"Region attempt {attempt} of pipeline {pipeline_id} {what}. Nothing it does counts any more; {then}. No "
        "action is needed, and this process may end."
    )


def begun(region: RegionRecord, at: datetime) -> RegionRecord:
    """Return the record of the next attempt, whatever the outcome of the one before. Performs no I/O."""
    return RegionRecord(region.attempt + 1, at, at, None, region.swept)


def ended(region: RegionRecord, at: datetime) -> RegionRecord:
    """Return the record of the ended attempt, which may do nothing any more. Performs no I/O."""
    return replace(region, seen_at=None, ended_at=at)


def swept(region: RegionRecord, attempt: int) -> RegionRecord:
    """Return the record with the directories of attempts up to this one swept. Performs no I/O."""
    return replace(region, swept=max(region.swept, attempt))


def reserved(region: RegionRecord, attempt: int, at: datetime) -> RegionRecord:
    """Return a record after which only newer attempts than this one are given out. The files of the attempts up to it
    are unknown, so they stay on storage. Performs no I/O."""
    newest = max(region.attempt, attempt)
    return RegionRecord(newest, at, None, at, newest) if newest else region


def needs_sign(region: RegionRecord, now: datetime) -> bool:
    """Whether it is time to write a sign of life. Performs no I/O."""
    return region.seen_at is None or is_over(region.seen_at, SIGN_EVERY, now)


def is_signed_ahead(region: RegionRecord, now: datetime) -> bool:
    """Whether its sign of life must be corrected to now (`clocks`). Performs no I/O."""
    return region.seen_at is not None and is_ahead(region.seen_at, REGION_LEASE, now)


def require_startable(pipeline: PipelineRecord) -> None:
    """Check that the pipeline is running or had no request yet: no other may have a region. Performs no I/O.

    Raises `PipelineFailedError`, `PipelineStatusError`.
    """
    if pipeline.status in ACTIVE:
        return
    resume = f"To continue, run `tidegate resume {pipeline.pipeline_id}`."
    if pipeline.status is PipelineStatus.FAILED:
        raise PipelineFailedError(f"{pipeline.message} {resume}")
    since = "" if pipeline.since is None else f" (since {pipeline.since:%Y-%m-%d %H:%M:%S} UTC)"
    raise PipelineStatusError(
        f"Pipeline {pipeline.pipeline_id} is {pipeline.status}{since}, so no region of it was started. Nothing was "
        "changed." + (f" {resume}" if pipeline.status is PipelineStatus.SUSPENDED else "")
    )


def directory_in_use(pipeline_id: str, region: RegionRecord) -> str | None:
    """Return the directory where the running region may have files that no checkpoint refers to yet. Performs no
    I/O."""
    return None if region.seen_at is None else shared_directory(pipeline_id, region.attempt)


def last_ended(region: RegionRecord) -> int:
    """Return the newest attempt that was ended or superseded, whose further files do not count. Performs no I/O."""
    return region.attempt if region.seen_at is None else region.attempt - 1


def left_since(region: RegionRecord) -> datetime | None:
    """Return the latest time at which the newest ended attempt can have ended; None if all directories of ended
    attempts were swept. Performs no I/O.
    """
    if last_ended(region) <= region.swept:
        return None
    return region.started_at if region.ended_at is None else region.ended_at


def choose_left_behind(pipeline_id: str, paths: Iterable[str], up_to: int) -> list[Deletion]:
    """Choose the files below `shared_root` in the directories of attempts up to this one. Performs no I/O."""
    return [Deletion(STORAGE, path) for path in paths if 0 < _attempt_of(pipeline_id, path) <= up_to]


def _attempt_of(pipeline_id: str, path: str) -> int:
    """Return the attempt in whose directory a file lies; 0 if there is none. A file with the directory's own name
    counts as in it."""
    writer = writer_of(pipeline_id, f"{path}/")
    return writer.attempt if isinstance(writer, ByRegion) else 0
