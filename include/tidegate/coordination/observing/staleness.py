"""Detect a pipeline that has completed no checkpoint for too long, and one that completes them again.
`protocol.observing.staleness` decides."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.coordination.context import PipelineContext
from tidegate.ports import StoreTransaction
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.observing.events import EventKind
from tidegate.protocol.observing.staleness import AsBefore, BecameFresh, BecameStale, decide_staleness


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a pipeline. `failing` is the newest checkpoint since the last success that failed through a fault.
    `stale_at`: see `AsBefore`."""

    pipeline: PipelineRecord
    failing: CheckpointRecord | None
    stale_at: datetime | None

    @property
    def stale(self) -> bool:
        return self.pipeline.stale_since is not None

    @property
    def well(self) -> bool:
        return not self.stale and self.failing is None and self.pipeline.status is not PipelineStatus.FAILED

    def summary(self) -> str:
        """Return a summary of one sentence or several."""
        pipeline, sentences = self.pipeline, [f"Pipeline {self.pipeline.pipeline_id} is {self.pipeline.status}."]
        if pipeline.status is PipelineStatus.FAILED and pipeline.message:
            sentences.append(pipeline.message)
        if pipeline.stale_since is not None:
            sentences.append(f"It is stale since {pipeline.stale_since:%Y-%m-%d %H:%M:%S} UTC.")
        if self.failing is not None and self.failing.failure_reason is not None:
            reason = self.failing.failure_reason
            sentences.append(f"Checkpoint {self.failing.checkpoint_id} failed, {reason.name}: {reason.sentence}")
        return " ".join(sentences)


class Staleness:
    """The staleness of one pipeline. May run in several processes at once: each change is recorded once."""

    def __init__(self, context: PipelineContext, stale_after: timedelta | None) -> None:
        self._context = context
        self._stale_after = stale_after

    def check(self) -> Health:
        """Record an event if the pipeline has become stale, or is no longer stale."""
        with self._context.transaction() as tx:
            now, stale_at = self._context.clock.now(), None
            match decision := decide_staleness(tx.pipeline(), tx.latest_completed(), self._stale_after, now):
                case BecameStale():
                    tx.mark_stale(now)
                    tx.add_event(EventKind.PIPELINE_STALE, decision.message, now)
                case BecameFresh():
                    tx.mark_stale(None)
                    tx.add_event(EventKind.PIPELINE_FRESH, decision.message, now)
                case AsBefore():
                    stale_at = decision.stale_at
            return Health(tx.pipeline(), _failing(tx), stale_at)


def _failing(tx: StoreTransaction) -> CheckpointRecord | None:
    latest = tx.latest_completed()
    since = max(tx.pipeline().forgiven_until, 0 if latest is None else latest.checkpoint_id)
    failed = [record for record in tx.failed_after(since) if record.failure_reason and record.failure_reason.is_fault]
    return failed[-1] if failed else None
