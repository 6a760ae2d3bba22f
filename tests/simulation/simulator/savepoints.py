"""People who export savepoints to directories, copy and dispose of them, and restore the pipeline from one: and whether
what is then there is what the savepoint held.

Decided by the files themselves and the history that the observer keeps, never by the rules under test.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from user_actions import dispose

from simulator.file_sinks import can_go_back
from simulator.runs import values_of
from simulator.scheduler import Violation, require
from simulator.upserting import left_as_they_are
from tidegate.ports import CheckpointStorage, SinkInput
from tidegate.protocol.facts.branches import Restore
from tidegate.protocol.facts.errors import (
    CheckpointNotFoundError,
    ConfigurationError,
    CopyInterruptedError,
    IllegalRequestError,
    RestoreRefusedError,
    SavepointExportError,
    StateIntegrityError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import STORAGE, sink_of_operator
from tidegate.protocol.facts.records import (
    CheckpointKind,
    CheckpointRecord,
    HandleKind,
    StateHandle,
    SubtaskId,
)
from tidegate.protocol.recovery.canonical import FileCopy, Rewrite
from tidegate.protocol.recovery.imports import IMPORT_LEASE, ClaimMode
from tidegate.protocol.recovery.restore_plan import Accepted

if TYPE_CHECKING:
    from memory_state import PipelineState

    from simulator.storage import SavedDirectory
    from simulator.world import World


@dataclass(frozen=True, slots=True)
class FromDirectory:
    """Where a restore is to go: to the savepoint that lies there."""

    url: str
    claim: ClaimMode


class SimulatedExporter:
    """`ports.Exporter`. Files are written one by one, in any order."""

    def __init__(self, world: "World") -> None:
        self.world = world

    def export(
        self, record: CheckpointRecord, location: str, rewrites: Sequence[Rewrite], copies: Sequence[FileCopy]
    ) -> Mapping[SubtaskId, StateHandle]:
        there = self.world.storage.elsewhere(location)
        work: list[Rewrite | FileCopy] = [*rewrites, *copies]
        self.world.aside.shuffle(work)
        merged = {}
        for each in work:
            if isinstance(each, FileCopy):
                there.copy(each.handle, self._home(each.owner), each.path, lambda: None)
            else:
                merged[each.subtask] = self._merge(each, there, record.checkpoint_id)
        return merged

    def _home(self, owner: str) -> CheckpointStorage:
        storage = self.world.storage
        return storage if owner == STORAGE else self.world.sinks[sink_of_operator(owner.partition(":")[2])].staging()

    def _merge(self, rewrite: Rewrite, there: "SavedDirectory", checkpoint_id: int) -> StateHandle:
        values: dict[int, int] = {}
        for run in rewrite.runs:
            values |= values_of(run, self.world.storage.read(run.path), rewrite.max_parallelism)
        content, path = json.dumps(sorted(values.items())).encode(), f"{rewrite.path}.parquet"
        there.write(path, content)
        checksum = sha256(content).hexdigest()
        return StateHandle(path, HandleKind.RUN, len(values), len(content), checksum, checkpoint_id, rewrite.key_groups)


# -- who does what


def use_savepoints(world: "World") -> None:
    """Somebody exports a savepoint, copies its directory, disposes of it, or restores from a directory."""
    state, random = world.store.state, world.aside
    kept = [
        id_
        for id_, record in state.checkpoints.items()
        if record.status is Status.COMPLETED and record.kind is not CheckpointKind.CHECKPOINT
    ]
    there = [directory for directory in world.storage.others.values() if directory.files]
    there = [directory for directory in there if can_go_back(world.sinks, directory.savepoint)]
    complete = [directory for directory in there if directory.is_complete]
    kinds = ["export"] * 4 * bool(kept) + ["dispose"] * bool(kept and complete) + ["copy"] * bool(there)
    kinds += ["restore"] * 3 * bool(complete) + ["restore"] * bool(there)
    match random.choice(kinds) if kinds else None:
        case "export":
            savepoint = random.choice(kept)
            world.spawn(f"somebody:export of {savepoint}", lambda: export(world, savepoint))
        case "dispose":
            savepoint = random.choice(kept)
            world.spawn(f"somebody:dispose of {savepoint}", lambda: dispose_of(world, savepoint))
        case "copy":
            copy(world, random.choice(there))
        case "restore":
            target = draw_directory(world, complete or there)
            world.spawn(f"somebody:{target}", lambda: restore_from(world, target))


def draw_directory(world: "World", among: "Sequence[SavedDirectory]") -> FromDirectory:
    claim = world.aside.choice([ClaimMode.NO_CLAIM, ClaimMode.NO_CLAIM, ClaimMode.CLAIM])
    return FromDirectory(world.aside.choice(among).url, claim)


def export(world: "World", savepoint: int) -> None:
    """`tidegate savepoint --format canonical`, for one that was taken before."""
    exporting, url = world.open_coordinator().exporting, f"saved://{savepoint}"
    directory = world.storage.elsewhere(url)
    directory.savepoint = savepoint
    if (process := world.scheduler.current) is not None:
        directory.writers.append(process)
    try:
        exporting.export(exporting.begin(str(savepoint), url).checkpoint_id, SimulatedExporter(world))
    except (CheckpointNotFoundError, ConfigurationError) as error:  # the latter: its directory is not emptied yet
        require(not _is_kept(world, savepoint), f"savepoint {savepoint} is kept, but: {error}")
        world.note(f"{type(error).__name__}: {error}")
    except IllegalRequestError as error:
        record = world.store.state.checkpoints[savepoint]
        rightly = savepoint in world.observer.history.left_by and record.notified_at is None
        require(rightly, f"savepoint {savepoint} can be exported, but: {error}")
        world.note(f"{type(error).__name__}: {error}")
    except SavepointExportError as error:
        damage = isinstance(error.__cause__, StateIntegrityError)
        require(not (damage and _is_kept(world, savepoint)), f"savepoint {savepoint} is whole, but: {error}")
        raise


def copy(world: "World", directory: "SavedDirectory") -> "SavedDirectory":
    """With any tool, at once. Of one that is not complete the copy is no savepoint, either."""
    made = world.storage.elsewhere(f"copy://{len(world.storage.others)}")
    made.savepoint, made.is_owners, made.files = directory.savepoint, True, dict(directory.files)
    world.tell(f"{directory.url} is copied to {made.url}")
    return made


def dispose_of(world: "World", savepoint: int) -> None:
    world.observer.disposes[world.scheduler.current] = savepoint
    try:
        dispose(world.open_coordinator(), str(savepoint))
    except CheckpointNotFoundError as error:
        require(not _is_kept(world, savepoint), f"savepoint {savepoint} is kept, but: {error}")
        raise


def _is_kept(world: "World", savepoint: int) -> bool:
    record = world.store.state.checkpoints.get(savepoint)
    return record is not None and record.status is Status.COMPLETED


def restore_from(world: "World", target: FromDirectory) -> None:
    """`tidegate restore --from`, by somebody who first looks at the plan or does not."""
    process, directory, coordinator = world.scheduler.current, world.storage.elsewhere(target.url), None
    found = directory.changes, directory.is_complete, len(world.store.state.restores), world.clock.time
    world.observer.wanted[process] = target
    coordinator = world.open_coordinator()
    try:
        planned = coordinator.plan_restore_from(target.url) if world.aside.random() < 0.5 else None
        if planned is not None:
            world.point("has read the plan")
        plan = coordinator.restore_from(target.url, target.claim, Accepted(leave=left_as_they_are(world)), planned)
    except (CopyInterruptedError, RestoreRefusedError) as error:
        _check_refusal(world, target, directory, found, str(error))
        raise
    except StateIntegrityError as error:
        raise Violation(f"{target} calls damage what another process did: {error}") from error
    done = world.observer.returned[process]
    ends = (plan.restore.checkpoint.checkpoint_id, plan.restore.previous and plan.restore.previous.checkpoint_id)
    require(ends == (done.checkpoint_id, done.left), f"the plan {ends} was carried out as {done}")


def _check_refusal(world: "World", target: FromDirectory, directory: "SavedDirectory", found: tuple, why: str) -> None:
    changes, was_complete, restores, since = found
    touched = not was_complete or changes != directory.changes
    reasons = {
        "latest completed checkpoint has changed": True,
        "it cannot be claimed": not directory.is_owners,
        "it has no marker": touched,
        "its content has changed": touched,
        "it has changed since the plan": touched,
        "another restore was made since": restores != len(world.store.state.restores),
        "are deleted for good": _is_gone_for_good(world, directory.savepoint),
        "copying stood still": world.clock.time - since > IMPORT_LEASE / 2 or world.clock.world.clocks.move,
    }
    right = any(reason in why and holds for reason, holds in reasons.items())
    require(right, f"a restore from {target.url} is refused without need: {why}")


def _is_gone_for_good(world: "World", savepoint: int) -> bool:
    """Nobody can go back to a checkpoint that follows it, and it has no rows but those in the tables."""
    history = world.observer.history
    branches = [moment.branch for id_, moment in history.moments.items() if _is_kept(world, id_)]
    appends = any(vertex.sink.input is not SinkInput.CURRENT for vertex in world.graph.sinks)
    return appends and not any(savepoint in branch for branch in (*branches, history.now.branch))


# -- what must hold


def check_export(world: "World", record: CheckpointRecord) -> None:
    """A savepoint was recorded as exported: its directory is complete, and holds what the checkpoint came to."""
    id_, directory = record.checkpoint_id, world.storage.elsewhere(record.location or "")
    require(directory.is_complete, f"savepoint {id_} counts as exported, but {directory.url} has no marker")
    moment = world.observer.history.moments[id_]
    for vertex in world.graph.keyed:
        state = dict(_rows(directory, f"state/{vertex.operator_id}"))
        same = state == moment.states[vertex.name]
        require(same, f"{directory.url} has {state} of {vertex.name} instead of {moment.states[vertex.name]}")
    for vertex in world.graph.sinks:
        if vertex.sink.input is SinkInput.CURRENT:
            rows = sorted(_rows(directory, f"staged/{vertex.operator_id}"))
            same = rows == moment.outputs[vertex.name]
            require(same, f"{directory.url} has {rows} of {vertex.name} instead of {moment.outputs[vertex.name]}")


def _rows(directory: "SavedDirectory", below: str) -> list[tuple[int, int]]:
    contents = [content for path, content in directory.files.items() if path.startswith(f"{below}/")]
    return [(key, value) for content in contents for key, value in json.loads(content)]


def check_claim(world: "World", target: FromDirectory, restore: Restore, before: "PipelineState") -> None:
    """The checkpoint that a restore records is new, and behind all others. A claimed directory may go from here on."""
    imported = restore.imported
    require(imported == restore.last_checkpoint_id + 1, f"{restore} does not record the next checkpoint")
    history = world.observer.history
    newest = max([id_ for id_, record in before.checkpoints.items() if record.completed_at], default=0)
    behind = imported is not None and imported > max(newest, *history.moments)
    require(behind, f"{restore} records a checkpoint that is not behind {newest} and {sorted(history.moments)[-1]}")
    directory = world.storage.elsewhere(target.url)
    directory.is_claimed = directory.is_claimed or target.claim is ClaimMode.CLAIM


def check_import(world: "World", record: CheckpointRecord) -> None:
    """The checkpoint that was recorded with a restore has the savepoint's state, positions and tables, and adds no
    rows."""
    id_, state = record.checkpoint_id, world.store.state
    require(record.status is Status.COMPLETED, f"checkpoint {id_} was recorded, but is {record.status}")
    snapshots = {subtask: known.snapshot for subtask, known in state.subtasks[id_].items()}
    require(record.metadata_path in world.storage.files, f"checkpoint {id_} was recorded without metadata")
    world.comparison.returns(id_, snapshots)


def check_directories(world: "World") -> None:
    """In the end: nothing is left of a savepoint that was disposed of, unless who wrote it died or failed, nor of one
    that was claimed; the others are as they were."""
    for directory in world.storage.others.values():
        gone = directory.is_claimed if directory.is_owners else not _is_kept(world, directory.savepoint)
        failed = any(process.crashed or process.error or process.killed for process in directory.writers)
        require(not gone or failed or not directory.files, f"{sorted(directory.files)[:5]} is left in {directory.url}")
