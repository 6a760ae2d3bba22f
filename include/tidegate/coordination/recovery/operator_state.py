"""Find the state of an operator by the names of pipeline, operator and checkpoint. This reads rows of the store and no
file.

It changes nothing and takes no lock, so it may run at any time. `protocol.schema.operator_state` decides.
"""

from dataclasses import replace

from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import ConfigurationError, PipelineNotFoundError
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.facts.savepoints import choose_savepoints, find_savepoint
from tidegate.protocol.schema.operator_state import OperatorState, choose_history, choose_kept, require_state, state_of


def find_state(
    store: CheckpointStore,
    pipeline_id: str,
    operator_id: str,
    checkpoint_id: int | None = None,
    savepoint: str | None = None,
) -> OperatorState:
    """Return an operator's state at the checkpoint, at the savepoint of this name or number, or at the latest completed
    one.

    Raises `PipelineNotFoundError`, `CheckpointNotFoundError`, `CheckpointNotRetainedError`, `OperatorNotFoundError`,
    `ConfigurationError` if both are named.
    """
    if savepoint is None:
        record = find_kept(store, pipeline_id, checkpoint_id)
    elif checkpoint_id is None:
        record = _find_savepoint(store, pipeline_id, savepoint)
    else:
        raise ConfigurationError("The state of one moment is read: name a checkpoint or a savepoint, not both.")
    return require_state(record, store.subtasks(pipeline_id, record.checkpoint_id), operator_id)


def find_earlier_state(store: CheckpointStore, state: OperatorState, checkpoint_id: int) -> OperatorState:
    """Return the same operator's state at another checkpoint, without subtasks if it had none there.

    Raises `CheckpointNotFoundError`, `CheckpointNotRetainedError`.
    """
    record = find_kept(store, state.pipeline_id, checkpoint_id)
    empty = replace(state, checkpoint_id=checkpoint_id, subtasks=())
    return state_of(record, store.subtasks(state.pipeline_id, checkpoint_id), state.operator_id) or empty


def find_history(store: CheckpointStore, pipeline_id: str) -> list[CheckpointRecord]:
    """Return the checkpoints of the pipeline's current branch whose state is retained, oldest first.

    Raises `PipelineNotFoundError`.
    """
    _require_known(store, pipeline_id)
    return choose_history(store.completed(pipeline_id))


def find_kept(store: CheckpointStore, pipeline_id: str, checkpoint_id: int | None = None) -> CheckpointRecord:
    """Return a checkpoint whose state is retained, by default the latest completed one.

    Raises `PipelineNotFoundError`, `CheckpointNotFoundError`, `CheckpointNotRetainedError`.
    """
    _require_known(store, pipeline_id)
    found = None if checkpoint_id is None else store.checkpoint(pipeline_id, checkpoint_id)
    return choose_kept(pipeline_id, store.completed(pipeline_id), checkpoint_id, found)


def _find_savepoint(store: CheckpointStore, pipeline_id: str, savepoint: str) -> CheckpointRecord:
    _require_known(store, pipeline_id)
    return find_savepoint(pipeline_id, savepoint, choose_savepoints(store.completed(pipeline_id)))


def _require_known(store: CheckpointStore, pipeline_id: str) -> None:
    known = store.pipelines()
    if pipeline_id not in known:
        raise PipelineNotFoundError(
            f"No checkpoint of a pipeline {pipeline_id!r} was ever requested in this database. Its pipelines: "
            f"{', '.join(known) or 'none'}."
        )
