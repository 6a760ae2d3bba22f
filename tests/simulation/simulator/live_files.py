"""Which files somebody still needs: nothing that is live is ever deleted, and nothing else is left in the end."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from simulator.scheduler import require
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.paths import with_markers
from tidegate.protocol.facts.records import CheckpointRecord, HandleKind, StateHandle, SubtaskId, SubtaskRecord
from tidegate.protocol.steps.snapshot import SnapshotTask

if TYPE_CHECKING:
    from simulator.world import World

File = tuple[str, str]  # owner and path


def require_unneeded(world: "World", owner: str, path: str) -> None:
    """Called before a file is deleted. No retained checkpoint refers to it, no sink has yet to commit it, and its
    writer has ended."""
    state = world.store.state
    require(world.scheduler.current not in world.observer.only_read, f"{path} is deleted by somebody who only looks")
    for record in state.checkpoints.values():
        if record.status is Status.COMPLETED:
            needed = (owner, path) in references(world, record)
            require(not needed, f"{path} is deleted, but checkpoint {record.checkpoint_id} refers to it")
    require((owner, path) not in {("storage", run) for run in state.compactions}, f"{path} is deleted, a merged run")
    writer = int(path.split("chk-")[1].split("/")[0])
    copying = {id_ for id_, (_, ended_at) in state.imports.items() if ended_at is None}
    require(writer not in copying, f"{path} is deleted, but somebody is copying it")
    if writer in state.checkpoints and state.checkpoints[writer].status is Status.IN_PROGRESS:
        _require_superseded(state.subtasks[writer], owner, path)


def _require_superseded(subtasks: Mapping[SubtaskId, SubtaskRecord], owner: str, path: str) -> None:
    """Of a checkpoint in progress: what counts stays, and what the newest attempt of a subtask has written."""
    *_, directory, name = path.split("/")
    index, attempt = name.split("-")[:2] if name[0].isdecimal() else ("", "")
    known = subtasks.get(SubtaskId(directory if owner == "storage" else owner.partition(":")[2], int(index or -1)))
    if known is not None and attempt.isdecimal():
        if known.acknowledged_at is None:
            require(int(attempt) < known.attempt, f"{path} is deleted, but its attempt goes on")
        else:
            needed = any(handle.path == path for handle in known.snapshot.handles)
            require(not needed, f"{path} is deleted, but {known.subtask} has acknowledged it")


def references(world: "World", record: CheckpointRecord) -> set[tuple[str, str]]:
    """Owner and path of every file that a completed checkpoint still needs."""
    needed = {("storage", path) for path in with_markers([record.metadata_path or ""])}
    for subtask, known in world.store.state.subtasks[record.checkpoint_id].items():
        for handle in known.snapshot.handles:
            if handle.kind is HandleKind.STAGED:
                needed.add((f"sink:{subtask.operator_id}", handle.path))
            elif handle.kind is not HandleKind.EXCHANGE:
                needed.add(("storage", handle.path))
    return needed


def misses_a_file(world: "World", task: SnapshotTask, error: Exception) -> None:
    """Only an attempt that was abandoned may find files gone."""
    record = world.store.state.checkpoints[task.checkpoint_id]
    wanted = record.status is Status.IN_PROGRESS and is_current(world, task)
    require(not wanted, f"a file that checkpoint {task.checkpoint_id} needs is gone: {error}")


def lost_a_write(world: "World", id_: int) -> bool:
    """Whether the disk has not kept what a sink staged for the checkpoint."""
    return not all(
        world.sinks[subtask.operator_id.removesuffix("-sink")].is_whole(handle)
        for subtask, known in world.store.state.subtasks[id_].items()
        for handle in known.snapshot.handles
        if handle.kind is HandleKind.STAGED
    )


def is_current(world: "World", task: SnapshotTask) -> bool:
    known = world.store.state.subtasks[task.checkpoint_id]
    return all(known[subtask].attempt == attempt for subtask, attempt in task.attempts.items())


def exists(world: "World", subtask: SubtaskId, handle: StateHandle) -> bool:
    if handle.kind is not HandleKind.STAGED:
        return handle.path in world.storage.files
    return handle.path in world.sinks[subtask.operator_id.removesuffix("-sink")].staged
