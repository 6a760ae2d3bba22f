"""Whether what counts as finished has finished, and whether a pipeline stops and ends when, and only when, it may
(protocol.md sections 13 and 18). Decided by what the sources hold and what is recorded, never by the rules under test.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from simulator.history import History
from simulator.scheduler import require
from tidegate.pipeline.inputs import inputs_of
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import is_sink
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord, Snapshot, SubtaskId, SubtaskRecord

if TYPE_CHECKING:
    from memory_state import PipelineState

    from simulator.world import World

SYNC = CheckpointKind.SYNC_SAVEPOINT
#: Section 8: it failed of what no subtask did, so the pipeline goes on.
NO_SUBTASKS_FAULT = {
    "CHECKPOINT_EXPIRED",
    "COORDINATOR_SUSPEND",
    "FINALIZE_CHECKPOINT_FAILURE",
    "HOLD_EXPIRED",
    "VALIDATION_FAILED",
    "VALIDATION_REJECTED",
}


def has_finished(state: "PipelineState") -> bool:
    return state.pipeline is not None and state.pipeline.status is PipelineStatus.FINISHED


def is_at_its_end(history: History, state: "PipelineState") -> bool:
    """Whether everything had finished in the latest completed checkpoint, and its sinks know."""
    latest = history.latest_in(state)
    if latest is None or latest.notified_at is None:
        return False
    return all(known.snapshot.finished for known in state.subtasks[latest.checkpoint_id].values())


def check_finished(
    world: "World", record: CheckpointRecord, snapshots: Mapping[SubtaskId, Snapshot], new_tables: bool = False
) -> None:
    """Of a checkpoint that completes: a split has finished if nothing can follow, or if the pipeline is drained; an
    operator or sink if all that it reads has. With `new_tables` no sink has done anything yet."""
    drained = record.drain or any(before.drain for before in world.observer.history.lost.values())
    done = {id_.operator_id: True for id_ in snapshots}
    for id_, snapshot in snapshots.items():
        done[id_.operator_id] &= snapshot.finished
        if (source := world.sources.get(id_.operator_id)) is not None:
            read = source.pieces_read(id_.subtask_index, snapshot, world.storage.files)
            over = drained or (source.bounded and len(read) == len(source.pieces[id_.subtask_index]))
            require(snapshot.finished == over, f"{id_} has {'' if over else 'not '}come to its end")
    for vertex in world.graph.operators:
        begins = new_tables and is_sink(vertex.operator_id)
        over = not begins and all(done[stream.origin] for stream in inputs_of(vertex))
        mine = {snapshots[id_].finished for id_ in snapshots if id_.operator_id == vertex.operator_id}
        require(mine == {over}, f"{vertex.operator_id} has {'' if over else 'not '}come to its end, but says {mine}")
    finished = sum(snapshot.finished for snapshot in snapshots.values())
    require(record.num_finished == finished, f"checkpoint {record.checkpoint_id} counts {record.num_finished} finished")


def require_finished_before(world: "World", record: CheckpointRecord, known: SubtaskRecord) -> None:
    """Whoever counts from the start had finished in the checkpoint before, with the same keyed state or position."""
    state = world.store.state
    latest = world.observer.history.latest_in(state)
    before = {} if latest is None else state.subtasks[latest.checkpoint_id]
    mine = [other.snapshot.finished for id_, other in before.items() if id_.operator_id == known.subtask.operator_id]
    had_finished = known.subtask in before and before[known.subtask].snapshot.finished
    require(had_finished or (bool(mine) and all(mine)), f"{known.subtask} counts, but nobody asked it")
    require(known.attempt == 0 and known.snapshot.finished, f"{known.subtask} counts from the start as if it ran")


def check_stops(history: History, before: "PipelineState", after: "PipelineState") -> None:
    """After every commit. Only a restore may lead out of an end or a stop for no reason of their own. Raises
    `Violation`."""
    if after.pipeline is None:
        return
    was = PipelineStatus.CREATED if before.pipeline is None else before.pipeline.status
    now, latest = after.pipeline.status, history.latest_in(after)
    going = [record for record in after.checkpoints.values() if record.status is Status.IN_PROGRESS]
    stopping = [record.checkpoint_id for record in going if record.kind is SYNC]
    others = [record.checkpoint_id for record in going if record.kind is not SYNC]
    require(not stopping or now is PipelineStatus.STOPPING, f"savepoint {stopping} is to stop a pipeline that is {now}")
    if now is PipelineStatus.STOPPING:
        require(not others, f"checkpoints {others} go on although the pipeline is stopping")
        unnotified = latest is not None and latest.kind is SYNC and latest.notified_at is None
        require(bool(stopping) or unnotified, "the pipeline is stopping, but with no savepoint")
        waiting = [request.request_id for request in after.requests.values() if request.dropped is None]
        require(not waiting, f"{waiting} wait although the pipeline is stopping")
    if now is PipelineStatus.FINISHED:
        require(not going, f"checkpoints {going} go on although the pipeline has finished")
        unnotified = [record.checkpoint_id for record in history.records_in(after) if record.notified_at is None]
        require(not unnotified, f"the pipeline has finished, but no sink was notified of {unnotified}")
        if was is not PipelineStatus.FINISHED:
            stopped = was is PipelineStatus.STOPPING and latest is not None and latest.kind is SYNC
            require(stopped or is_at_its_end(history, after), "the pipeline has finished too early")
    if len(after.restores) > len(before.restores):
        return
    if was is PipelineStatus.FINISHED and now is not was and now is not PipelineStatus.CANCELLED:
        require(not is_at_its_end(history, after), "a pipeline goes on behind its end")
    if was is PipelineStatus.STOPPING and now in (PipelineStatus.RUNNING, PipelineStatus.FAILED):
        _check_failed_stop(before, after, now)


def _check_failed_stop(before: "PipelineState", after: "PipelineState", now: PipelineStatus) -> None:
    failed = [
        record
        for id_, record in after.checkpoints.items()
        if record.status is Status.FAILED
        and before.checkpoints[id_].status is not Status.FAILED
        and record.kind is SYNC
    ]
    require(len(failed) == 1, f"the pipeline is {now} although its savepoint did not fail")
    goes_on = failed[0].failure_reason is not None and failed[0].failure_reason.name in NO_SUBTASKS_FAULT
    require(goes_on == (now is PipelineStatus.RUNNING), f"after {failed[0].failure_reason} the pipeline is {now}")
