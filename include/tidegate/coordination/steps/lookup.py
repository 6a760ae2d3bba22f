"""Read checkpoints, and the snapshots of the latest completed one, with compactions applied.

`protocol.steps.restored_snapshots` decides which state each subtask gets.
"""

from collections.abc import Mapping

from tidegate.coordination.context import DefinedContext
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.graph import Graph
from tidegate.ports import CheckpointStore, PositionedSink, StoreTransaction
from tidegate.protocol.facts.branches import drops_unmatched, is_restored
from tidegate.protocol.facts.errors import CheckpointNotFoundError
from tidegate.protocol.facts.records import CheckpointRecord, Snapshot, SubtaskId
from tidegate.protocol.recovery.skipping import apply_skips
from tidegate.protocol.steps.finished import require_legal_restore
from tidegate.protocol.steps.restored_snapshots import kept_max_parallelism, restore_snapshots
from tidegate.protocol.steps.sink_marks import known_marks

#: A user may give a number that is higher than any id in a store.
HIGHEST_ID = 2**63 - 1


def shown_checkpoints(graph: Graph) -> dict[str, int | None]:
    """Return the checkpoint that the table of each sink of upserts shows, by operator id, if the sink records it.
    Raises `SinkError`."""
    sinks = {vertex.operator_id: vertex.sink for vertex in graph.sinks if vertex.operator_id in graph.upserted}
    return {id_: sink.shown_checkpoint() for id_, sink in sinks.items() if isinstance(sink, PositionedSink)}


def restore_latest(
    tx: StoreTransaction, context: DefinedContext, shown: Mapping[str, int | None]
) -> tuple[CheckpointRecord | None, dict[SubtaskId, Snapshot]]:
    """Return the latest completed checkpoint, and the snapshot that each subtask starts from; None and no snapshots if
    there is none. `shown` is the result of `shown_checkpoints`, which reads before the transaction is opened.

    Raises `StateSchemaError`.
    """
    latest = tx.latest_completed()
    known = {} if latest is None else tx.subtasks(latest.checkpoint_id)
    graph, config = context.graph, context.config
    snapshots = {key: subtask.snapshot for key, subtask in known.items()}
    if latest is not None:
        snapshots = apply_skips(snapshots, latest.checkpoint_id, tx.skips())
    restores = tx.restores()
    drop = config.allow_non_restored_state or drops_unmatched(latest, restores)
    restored = restore_snapshots(latest, snapshots, graph.plan, tx.compactions(), drop, graph.renamed)
    if latest is not None:
        restored = known_marks(restored, latest.checkpoint_id, shown, is_restored(latest, restores))
        require_legal_restore(latest, graph.plan, restored, graph.upstreams, graph.renamed)
    return latest, restored


def keep_max_parallelism(pipeline: Pipeline, store: CheckpointStore) -> None:
    """Keep the max parallelism of a pipeline's state when its parallelism is raised, unless the pipeline sets one. Must
    be called before the pipeline is compiled."""
    if pipeline.sets_max_parallelism:
        return
    for record in reversed(store.completed(pipeline.name)):
        if record.abandoned_by is None:
            kept = kept_max_parallelism(record, pipeline.parallelism)
            pipeline.max_parallelism = kept or pipeline.max_parallelism
            return


def find_checkpoint(tx: StoreTransaction, pipeline_id: str, checkpoint_id: int) -> CheckpointRecord:
    """Return a checkpoint. Raise `CheckpointNotFoundError` if the pipeline does not have it."""
    record = None if checkpoint_id > HIGHEST_ID else tx.checkpoint(checkpoint_id)
    if record is None:
        raise CheckpointNotFoundError(
            f"Pipeline {pipeline_id} has no checkpoint {checkpoint_id} in this database. Check the id with "
            f"`tidegate checkpoints {pipeline_id}` and that TIDEGATE_DATABASE_URL names the right database."
        )
    return record


def find_triggered(store: CheckpointStore, pipeline_id: str, since: int) -> list[CheckpointRecord]:
    """Return the checkpoints with a higher id, oldest first, in any status. If none is new, it reads one row."""
    number = 1
    while True:
        new = [record for record in store.history(pipeline_id, number) if record.checkpoint_id > since]
        if len(new) < number or new[-1].checkpoint_id == since + 1:
            return new[::-1]
        number *= 4
