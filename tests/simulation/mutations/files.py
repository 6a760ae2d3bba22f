"""Planted mistakes in what is kept and what is deleted."""

from dataclasses import replace

from memory_transaction import MemoryTransaction

from mutations.planting import mutation
from tidegate.coordination.cleaning import deletion_queue as deleting
from tidegate.coordination.cleaning import sweeper as sweepers
from tidegate.coordination.steps import finalize as commits
from tidegate.coordination.steps import pipeline_status as controls
from tidegate.coordination.steps.snapshot import Snapshotting
from tidegate.protocol.continuous.regions import ended
from tidegate.protocol.facts.records import CheckpointKind


@mutation("the newest checkpoint is subsumed", (commits, "choose_subsumed"))
def _(original):
    return lambda retained, rule, now: [r.checkpoint_id for r in retained if r.kind is CheckpointKind.CHECKPOINT]


@mutation("one checkpoint fewer than asked for is retained", (commits, "choose_subsumed"))
def _(original):
    return lambda retained, rule, now: original(retained, replace(rule, number=1), now)


@mutation("a file that is still referred to is swept away", (sweepers, "choose_unreferenced"))
def _(original):
    return lambda found, live: list(found)


@mutation("queued files are deleted although something refers to them", (MemoryTransaction, "pending_deletions"))
def _(original):
    return lambda self, limit: list(self.state.deletions)[:limit]


@mutation("files of a checkpoint in progress are swept away", (MemoryTransaction, "unswept"))
def _(original):
    return lambda self: original(self) | {record.checkpoint_id: record.triggered_at for record in self.in_progress()}


@mutation("directories are removed while they are written to", (sweepers, "choose_closed"), (deleting, "choose_closed"))
def _(original):
    return lambda pipeline_id, paths, in_progress, region: original(
        pipeline_id, paths, (), ended(region, region.seen_at)
    )


@mutation("a pipeline's directory is removed while it may go on", (deleting, "closed_for_ever"))
def _(original):
    return lambda pipeline: {pipeline.pipeline_id}


@mutation("leftovers are looked for only once", (sweepers, "is_settled"))
def _(original):
    return lambda ended_at, now: True


@mutation("a compaction is recorded after its checkpoint ended", (Snapshotting, "_record_compactions"))
def _(original):
    def record(self, checkpoint_id, compactions):
        with self._context.transaction() as tx:
            tx.add_compactions(compactions)

    return record


@mutation("what the user retains goes when the pipeline is cancelled", (controls, "choose_subsumed_on_cancellation"))
def _(original):
    return lambda retained, keep: original(retained, False)


@mutation("savepoints go when the pipeline is cancelled", (controls, "choose_subsumed_on_cancellation"))
def _(original):
    return lambda retained, keep: [] if keep else [record.checkpoint_id for record in retained]
