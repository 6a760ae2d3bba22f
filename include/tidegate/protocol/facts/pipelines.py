"""The life of a pipeline, and the consequences of its status (protocol.md sections 2 and 9).

Only a running pipeline takes checkpoints. `CREATED` becomes `RUNNING` with its first request. Too many failed
checkpoints lead to `FAILED`. A pipeline is `FINISHED` when nothing is left to read, or when the savepoint to stop with
is complete. If that savepoint fails, the pipeline runs again or has failed. Every other change is requested from
outside. The store repeats the list as a CHECK constraint.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from tidegate.protocol.facts.errors import PipelineStatusError


class PipelineStatus(StrEnum):
    CREATED = "CREATED"  # recorded; no checkpoint was requested yet
    RUNNING = "RUNNING"  # takes checkpoints
    STOPPING = "STOPPING"  # takes one more, a savepoint that is in progress, and no others
    SUSPENDED = "SUSPENDED"  # takes none until it is resumed
    FAILED = "FAILED"  # more checkpoints failed in a row than are tolerated; takes none until it is resumed
    FINISHED = "FINISHED"  # has ended; can be resumed only if it was stopped while there was still something to read
    CANCELLED = "CANCELLED"  # ended by the user; only a restore leads out of it


PIPELINE_TRANSITIONS: dict[PipelineStatus, frozenset[PipelineStatus]] = {
    PipelineStatus.CREATED: frozenset(
        {PipelineStatus.RUNNING, PipelineStatus.STOPPING, PipelineStatus.SUSPENDED, PipelineStatus.CANCELLED}
    ),
    PipelineStatus.RUNNING: frozenset(
        {
            PipelineStatus.STOPPING,
            PipelineStatus.SUSPENDED,
            PipelineStatus.FAILED,
            PipelineStatus.FINISHED,
            PipelineStatus.CANCELLED,
        }
    ),
    PipelineStatus.STOPPING: frozenset(
        {
            PipelineStatus.RUNNING,
            PipelineStatus.SUSPENDED,
            PipelineStatus.FAILED,
            PipelineStatus.FINISHED,
            PipelineStatus.CANCELLED,
        }
    ),
    PipelineStatus.SUSPENDED: frozenset({PipelineStatus.RUNNING, PipelineStatus.FINISHED, PipelineStatus.CANCELLED}),
    PipelineStatus.FAILED: frozenset({PipelineStatus.RUNNING, PipelineStatus.CANCELLED}),
    PipelineStatus.FINISHED: frozenset({PipelineStatus.RUNNING, PipelineStatus.CANCELLED}),
    PipelineStatus.CANCELLED: frozenset(),  # only a restore leads out of it, see `restored`
}

#: A request of a pipeline with this status may lead to a checkpoint.
ACTIVE = frozenset({PipelineStatus.CREATED, PipelineStatus.RUNNING})

#: The continuous region of a pipeline with this status goes on: a stopping one has a savepoint to take.
WITH_REGION = ACTIVE | {PipelineStatus.STOPPING}


@dataclass(frozen=True, slots=True)
class PipelineRecord:
    """A pipeline's row. It reached its status at `since`, None if that was never recorded; `message` is the reason.
    Failures of checkpoints up to `forgiven_until` no longer count, because the pipeline was resumed after them. At
    `stale_since` it was found to have completed no checkpoint for too long; None if it was not.
    """

    pipeline_id: str
    status: PipelineStatus = PipelineStatus.CREATED
    since: datetime | None = None
    message: str | None = None
    forgiven_until: int = 0
    stale_since: datetime | None = None


def require_move(pipeline: PipelineRecord, after: PipelineStatus) -> None:
    """Raise `PipelineStatusError` if the transition is not legal. Performs no I/O."""
    if after not in PIPELINE_TRANSITIONS[pipeline.status]:
        raise PipelineStatusError(
            f"Pipeline {pipeline.pipeline_id} is {pipeline.status} and cannot become {after}. Nothing was changed."
            + ("" if PIPELINE_TRANSITIONS[pipeline.status] else _final(pipeline.pipeline_id))
        )


def _final(pipeline_id: str) -> str:
    return (
        " That is final; give a new pipeline another name, or go back to a checkpoint or savepoint that was kept with "
        f"`tidegate restore {pipeline_id}`."
    )


def restored(pipeline: PipelineRecord, at: datetime, message: str, forgiven_until: int) -> PipelineRecord:
    """Return the pipeline's row after a restore, which leads out of every status. A suspended pipeline stays suspended,
    any other runs. Performs no I/O."""
    after = PipelineStatus.SUSPENDED if pipeline.status is PipelineStatus.SUSPENDED else PipelineStatus.RUNNING
    forgiven = max(pipeline.forgiven_until, forgiven_until)
    return replace(pipeline, status=after, since=at, message=message, forgiven_until=forgiven)


def moved(
    pipeline: PipelineRecord, after: PipelineStatus, at: datetime, message: str | None, forgiven_until: int | None
) -> PipelineRecord:
    """Return the pipeline's row after a legal transition. Performs no I/O."""
    forgiven = pipeline.forgiven_until if forgiven_until is None else forgiven_until
    return replace(pipeline, status=after, since=at, message=message, forgiven_until=forgiven)
