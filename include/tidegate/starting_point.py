"""From where the next checkpoint goes on: the latest completed one, whole, as the pipeline's definition takes it now."""

from tidegate.config import CheckpointConfig
from tidegate.graph import Graph
from tidegate.ports import StoreTransaction
from tidegate.protocol.finished import require_legal_restore
from tidegate.protocol.records import Snapshot, SubtaskId
from tidegate.protocol.restore import restore_snapshots


def restored_snapshots(tx: StoreTransaction, graph: Graph, config: CheckpointConfig) -> dict[SubtaskId, Snapshot]:
    """What each subtask starts from; nothing before the first checkpoint. Raises `StateSchemaError`."""
    latest = tx.latest_completed()
    known = {} if latest is None else tx.subtasks(latest.checkpoint_id)
    snapshots = {key: subtask.snapshot for key, subtask in known.items()}
    restored = restore_snapshots(latest, snapshots, graph.plan, tx.compactions(), config.allow_non_restored_state)
    if latest is not None:
        require_legal_restore(latest, graph.plan, restored, graph.upstreams)
    return restored
