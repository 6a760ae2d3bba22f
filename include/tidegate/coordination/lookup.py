"""Reads a checkpoint, and what a pipeline goes on from: the snapshots of its latest completed one, compactions applied.

`protocol.restore` decides what each subtask gets.
"""

from tidegate.pipeline.config import CheckpointConfig
from tidegate.pipeline.graph import Graph
from tidegate.ports import StoreTransaction
from tidegate.protocol.branches import drops_unmatched
from tidegate.protocol.errors import CheckpointNotFoundError
from tidegate.protocol.finished import require_legal_restore
from tidegate.protocol.records import CheckpointRecord, Snapshot, SubtaskId
from tidegate.protocol.restore import restore_snapshots


def restore_latest(
    tx: StoreTransaction, graph: Graph, config: CheckpointConfig
) -> tuple[CheckpointRecord | None, dict[SubtaskId, Snapshot]]:
    """The latest completed checkpoint and what each subtask starts from; None and no snapshots if there is none.

    Raises `StateSchemaError`.
    """
    latest = tx.latest_completed()
    known = {} if latest is None else tx.subtasks(latest.checkpoint_id)
    snapshots = {key: subtask.snapshot for key, subtask in known.items()}
    drop = config.allow_non_restored_state or drops_unmatched(latest, tx.restores())
    restored = restore_snapshots(latest, snapshots, graph.plan, tx.compactions(), drop, graph.renamed)
    if latest is not None:
        require_legal_restore(latest, graph.plan, restored, graph.upstreams, graph.renamed)
    return latest, restored


def find_checkpoint(tx: StoreTransaction, pipeline_id: str, checkpoint_id: int) -> CheckpointRecord:
    """Raises `CheckpointNotFoundError`."""
    record = tx.checkpoint(checkpoint_id)
    if record is None:
        raise CheckpointNotFoundError(
            f"Pipeline {pipeline_id} has no checkpoint {checkpoint_id} in this database. Check the id with "
            f"`tidegate checkpoints {pipeline_id}` and that TIDEGATE_DATABASE_URL names the right database."
        )
    return record
