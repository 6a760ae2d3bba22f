"""Staleness: a pipeline has gone for too long without a completed checkpoint.

That is no failure, because perhaps no checkpoint was requested at all. So the processes that take checkpoints cannot
notice it, and a monitor must.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.protocol.facts.clocks import is_over
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.text.durations import written

#: A pipeline of this status should complete checkpoints. One that has not begun or was stopped should not. One that has
#: failed should.
EXPECTED = frozenset({PipelineStatus.RUNNING, PipelineStatus.STOPPING, PipelineStatus.FAILED})


@dataclass(frozen=True, slots=True)
class BecameStale:
    message: str


@dataclass(frozen=True, slots=True)
class BecameFresh:
    message: str


@dataclass(frozen=True, slots=True)
class AsBefore:
    """Nothing has changed. The pipeline becomes stale at `stale_at` if nothing completes until then; None if it is
    stale, or if no checkpoint is expected."""

    stale_at: datetime | None


def decide_staleness(
    pipeline: PipelineRecord, latest: CheckpointRecord | None, stale_after: timedelta | None, now: datetime
) -> BecameStale | BecameFresh | AsBefore:
    """Decide whether the pipeline is stale. `latest` is the latest completed checkpoint. Performs no I/O."""
    expected = stale_after is not None and pipeline.status in EXPECTED
    completed_at = None if latest is None else latest.completed_at
    if pipeline.stale_since is not None:
        is_fresh = completed_at is not None and (
            completed_at >= pipeline.stale_since
            or (stale_after is not None and not is_over(completed_at, stale_after, now))
        )
        return _decide_stale(pipeline, latest if is_fresh else None, expected)
    known = [at for at in (completed_at, _begun(pipeline)) if at is not None]
    if stale_after is None or not expected or not known:
        return AsBefore(None)
    if counted := [at for at in known if not is_over(at, stale_after, now)]:
        return AsBefore(max(counted) + stale_after)
    last = (
        "None has completed yet"
        if latest is None
        else f"The latest is checkpoint {latest.checkpoint_id}, completed at {completed_at:%Y-%m-%d %H:%M:%S} UTC"
    )
    return BecameStale(
        f"Pipeline {pipeline.pipeline_id} has completed no checkpoint for longer than {written(stale_after)}. {last}. "
        f"It is {pipeline.status}. Committed data is untouched. Check whether its DAG is paused, whether its region "
        "runs, and whether its latest checkpoints fail."
    )


def _decide_stale(pipeline: PipelineRecord, since: CheckpointRecord | None, expected: bool) -> BecameFresh | AsBefore:
    """Decide on a stale pipeline. `since` is the latest completed checkpoint if it has completed since the pipeline
    became stale."""
    if not expected:
        what = "so none is expected" if pipeline.status not in EXPECTED else "and is no longer watched"
        return BecameFresh(f"Pipeline {pipeline.pipeline_id} is {pipeline.status}, {what}: it does not count as stale.")
    if since is not None:
        return BecameFresh(
            f"Pipeline {pipeline.pipeline_id} completes checkpoints again: checkpoint {since.checkpoint_id}, at "
            f"{since.completed_at:%Y-%m-%d %H:%M:%S} UTC."
        )
    return AsBefore(None)


def _begun(pipeline: PipelineRecord) -> datetime | None:
    """Return the time since when a checkpoint can have been missed; None for a pipeline that has failed, which does not
    run."""
    return None if pipeline.status is PipelineStatus.FAILED else pipeline.since
