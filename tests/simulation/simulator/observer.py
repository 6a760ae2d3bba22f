"""Watches every commit, deletion and message, and holds what it sees against the eight invariants and the sequential
execution. It decides by what is recorded and by what the world contains, never by the rules under test.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from simulator.failures import check_failures
from simulator.history import History, Moment, Return, is_rewinding
from simulator.restores import check_restores, check_subsumed
from simulator.runs import values_of
from simulator.scheduler import Process, require
from simulator.sequential import SequentialExecution
from simulator.sinks import SimulatedSink
from simulator.sources import Row
from simulator.stops import check_finished, check_stops, require_finished_before
from tidegate.coordination.restore import Target
from tidegate.pipeline.definition import StepVertex
from tidegate.pipeline.graph import Graph
from tidegate.protocol.admission import LEASE
from tidegate.protocol.lifecycle import COMMITTED, TRANSITIONS, Stage, Status
from tidegate.protocol.paths import marker_path, with_markers
from tidegate.protocol.pipelines import PipelineStatus
from tidegate.protocol.records import (
    Acknowledgement,
    AcknowledgeResult,
    CheckpointKind,
    CheckpointRecord,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
)
from tidegate.protocol.snapshot import SnapshotTask

if TYPE_CHECKING:
    from memory_state import PipelineState

    from simulator.world import World

COUNTED = {AcknowledgeResult.SUCCESS, AcknowledgeResult.DUPLICATE}


def _reachable(stage: Stage) -> set[Stage]:
    found, frontier = {stage}, [stage]
    while frontier:
        following = TRANSITIONS[frontier.pop()] - found
        found |= following
        frontier += following
    return found


REACHABLE = {stage: _reachable(stage) for stage in TRANSITIONS}


class Observer:
    """One simulated run's witness."""

    def __init__(self, world: "World", graph: Graph) -> None:
        self.world = world
        self.graph = graph
        self.sequential = SequentialExecution(graph)
        self.history = History(Moment(0, frozenset(), *self.sequential.came_to(), {}))
        self.returned: dict[Process | None, Return] = {}  # the restore that each has carried out
        self.wanted: dict[Process | None, Target] = {}  # where each process that restores was to go
        self.judged: dict[int, list[dict[SubtaskId, Snapshot]]] = {}
        self.counted: set[tuple[int, SubtaskId]] = set()
        self.committables: dict[int, dict[str, list[str]]] = {}  # by checkpoint and sink, paths
        self.answered: dict[tuple[str, int], object] = {}  # the first answer of a step
        self.knows: dict[str, set[int]] = {name: set() for name in world.sinks}  # what each sink was notified of
        self.attempts: dict[Process | None, int] = {}  # the attempt at committing that each process has taken last

    # -- commits

    def committed(self, before: "PipelineState", after: "PipelineState") -> None:
        """A transaction has become durable."""
        self._commits(before, after)
        check_restores(self.world, before, after)
        if len(after.restores) > len(before.restores):
            self.sequential.go_on_from(self.history.now.states, self.history.now.outputs)
        for id_, record in reversed(after.checkpoints.items()):  # first the one that completes and subsumes others
            previous = before.checkpoints.get(id_)
            if previous is None:
                self._triggered(record, before, after)
            elif previous is not record:
                self._moved(previous, record, before, after)
            if after.subtasks[id_] is not before.subtasks.get(id_):
                for subtask, known in after.subtasks[id_].items():
                    self._reported(record, known, before.subtasks.get(id_, {}).get(subtask))
        if after.pipeline is not None and before.pipeline is not None:
            check_failures(before, after, self.graph.pipeline.checkpoints.tolerable_failed_checkpoints)
        check_stops(self.history, before, after)
        if after.pipeline is not None and after.pipeline.status is PipelineStatus.SUSPENDED:
            going = [id_ for id_, record in after.checkpoints.items() if record.status is Status.IN_PROGRESS]
            require(not going, f"checkpoints {going} go on although the pipeline is suspended")
        require(before.checkpoints.keys() <= after.checkpoints.keys(), "a checkpoint was forgotten")
        for path in after.compactions.keys() - before.compactions.keys():
            creator = after.checkpoints[after.compactions[path].handle.created_by]
            require(creator.status is Status.IN_PROGRESS, f"{path} was recorded when its directory was being swept")

    def _commits(self, before: "PipelineState", after: "PipelineState") -> None:
        """Attempts at committing sinks are given out once, and only the newest records that sinks have committed."""
        process, known, now = self.world.scheduler.current, before.committer, after.committer
        require(now.attempt >= known.attempt, f"attempt {now.attempt} at committing follows {known.attempt}")
        if now.attempt != known.attempt:
            require(now.attempt not in self.attempts.values(), f"attempt {now.attempt} is given out twice")
            self.attempts[process] = now.attempt
        elif now.seen_at is not None and now != known:
            mine = self.attempts.get(process) == now.attempt
            require(mine, f"a process goes on with attempt {now.attempt}, which is not its own")
        told = [id_ for id_, record in after.checkpoints.items() if record.notified_at is not None]
        fresh = [id_ for id_ in told if before.checkpoints[id_].notified_at is None]
        mine = self.attempts.get(process) == known.attempt
        require(mine or not fresh, f"a process that was overtaken records that the sinks were notified of {fresh}")

    def _triggered(self, record: CheckpointRecord, before: "PipelineState", after: "PipelineState") -> None:
        id_, config = record.checkpoint_id, self.graph.pipeline.checkpoints
        require(id_ > max(before.checkpoints, default=0), f"checkpoint {id_} is not newer than those before")
        same = [known for known in after.checkpoints.values() if known.request_id == record.request_id]
        going = [known for known in same if known.status is Status.IN_PROGRESS]
        counts = self.history.answers_for(before, record.request_id)
        require(len(going) == 1 and not counts, f"{record.request_id} has two checkpoints")
        require(not is_rewinding(before), f"checkpoint {id_} begins before the sinks are rewound")
        waiting = [known for known in after.checkpoints.values() if known.status is Status.IN_PROGRESS]
        require(len(waiting) <= config.max_concurrent, f"checkpoint {id_} was one too many at once")
        status = PipelineStatus.CREATED if before.pipeline is None else before.pipeline.status
        require(status in (PipelineStatus.CREATED, PipelineStatus.RUNNING), f"checkpoint {id_} began when {status}")
        if record.kind is not CheckpointKind.SYNC_SAVEPOINT:  # which aborts everything else
            self._comes_first(record, before)
        if record.periodic and (success := self.history.last_success(before)) is not None:
            pause = record.triggered_at - success
            require(pause >= config.min_pause, f"periodic checkpoint {id_} came {pause} after the last success")

    def _comes_first(self, record: CheckpointRecord, before: "PipelineState") -> None:
        """No request that waits has precedence; those that nobody repeats have gone away."""
        mine = before.requests.get(record.request_id)
        asked_at = record.triggered_at if mine is None else mine.asked_at
        rank = (record.kind is CheckpointKind.CHECKPOINT, record.periodic, asked_at)
        for other in before.requests.values():
            there = other.dropped is None and record.triggered_at - other.seen_at <= LEASE
            theirs = (other.kind is CheckpointKind.CHECKPOINT, other.periodic, other.asked_at)
            first = other is mine or not there or rank <= theirs
            require(first, f"{record.request_id} begins although {other.request_id} has precedence")

    def _moved(
        self, previous: CheckpointRecord, record: CheckpointRecord, before: "PipelineState", after: "PipelineState"
    ) -> None:
        id_ = record.checkpoint_id
        stages = (previous.status, previous.phase), (record.status, record.phase)
        require(stages[1] in REACHABLE[stages[0]], f"checkpoint {id_} went from {stages[0]} to {stages[1]}")
        if previous.status is Status.FAILED:
            require(record == previous, f"checkpoint {id_} was changed after it had failed")
        if record.status in COMMITTED and previous.status not in COMMITTED:
            self._completed(record, before, after)
        if record.status is Status.SUBSUMED and previous.status is Status.COMPLETED:
            self._subsumed(record, after)
        if record.notified_at is not None and previous.notified_at is None:
            for name, known in self.knows.items():
                was_asked = any(
                    s.attempt for s in after.subtasks[id_].values() if s.subtask.operator_id == f"{name}-sink"
                )
                require(
                    id_ in known or not was_asked, f"checkpoint {id_} counts as notified, but {name} was not notified"
                )

    def _subsumed(self, record: CheckpointRecord, after: "PipelineState") -> None:
        id_ = record.checkpoint_id
        require(record.kind is CheckpointKind.CHECKPOINT, f"savepoint {id_} is its owner's, but was subsumed")
        if after.pipeline is not None and after.pipeline.status is PipelineStatus.CANCELLED:
            return  # nothing is retained any more
        if id_ in self.history.left_by:
            return check_subsumed(self.world, id_)
        present = [after.checkpoints[known] for known in self.history.branch_in(after)]
        require(max(r.checkpoint_id for r in present) > id_, f"checkpoint {id_} was subsumed by none that is newer")
        ours = [known for known in present if known.kind is CheckpointKind.CHECKPOINT]
        retained = [known for known in ours if known.status is Status.COMPLETED]
        kept = min(self.graph.pipeline.checkpoints.retained, len(ours))
        require(len(retained) >= kept, f"only {len(retained)} checkpoints are retained instead of {kept}")

    def _reported(self, record: CheckpointRecord, known: SubtaskRecord, previous: SubtaskRecord | None) -> None:
        id_, subtask = record.checkpoint_id, known.subtask
        if previous is not None and previous.acknowledged_at is not None:
            require(known == previous, f"the snapshot of {subtask} for checkpoint {id_} was changed")
        elif known.acknowledged_at is not None:
            if previous is None:
                require_finished_before(self.world, record, known)
            else:
                require(previous.attempt == known.attempt, f"a stale report of {subtask} counted")
            in_time = known.acknowledged_at < record.deadline
            require(in_time, f"a report of {subtask} counted after the deadline of checkpoint {id_}")
            require(record.status is Status.IN_PROGRESS, f"a report of {subtask} counted after checkpoint {id_} ended")
            for handle in known.snapshot.handles:
                require(self._exists(subtask, handle), f"{handle.path} of {subtask} is gone when it is acknowledged")

    def _completed(self, record: CheckpointRecord, before: "PipelineState", after: "PipelineState") -> None:
        id_, subtasks = record.checkpoint_id, after.subtasks[record.checkpoint_id]
        missing = [str(known.subtask) for known in subtasks.values() if known.acknowledged_at is None]
        require(not missing, f"checkpoint {id_} completed without {', '.join(missing)}")
        planned = {SubtaskId(plan.operator_id, i) for plan in record.operators for i in range(plan.parallelism)}
        require(set(subtasks) == planned, f"checkpoint {id_} completed with other subtasks than it was triggered for")
        snapshots = {subtask: known.snapshot for subtask, known in subtasks.items()}
        verdicts = {verdict.target: verdict.success for verdict in after.verdicts.get(id_, ())}
        if self.graph.targets:
            require(snapshots in self.judged.get(id_, []), f"checkpoint {id_} completed, but was not judged as it is")
        require(
            all(verdicts.get(target) for target in self.graph.targets), f"checkpoint {id_} completed with {verdicts}"
        )
        require(record.metadata_path in self.world.storage.files, f"checkpoint {id_} completed without metadata")
        require(not self.history.answers_for(before, record.request_id), f"{record.request_id} completed twice")
        check_finished(self.world, record, snapshots)
        self._compare(id_, snapshots)

    # -- exactly once

    def _compare(self, id_: int, snapshots: Mapping[SubtaskId, Snapshot]) -> None:
        """The checkpoint's state and staged rows are those of the sequential execution of its cut."""
        cut, read = self._cut(id_, snapshots)
        given = self.sequential.step(cut, self._drawn(snapshots))
        self.history.complete(id_, *self.sequential.came_to(), read)
        for vertex in self.graph.keyed:
            require(
                self.state_of(vertex.operator_id, snapshots) == self.sequential.states[vertex.name],
                f"the state of {vertex.name} in checkpoint {id_} is "
                f"{sorted(self.state_of(vertex.operator_id, snapshots).items())}, but a plain execution gives "
                f"{sorted(self.sequential.states[vertex.name].items())}",
            )
        self.committables[id_] = {}
        for vertex in self.graph.sinks:
            sink = self.world.sinks[vertex.name]
            handles = self._handles(vertex.operator_id, snapshots, HandleKind.STAGED)
            staged = sorted(row for handle in handles for row in sink.staged.get(handle.path, ()))
            require(
                staged == given[vertex.name],
                f"checkpoint {id_} staged {staged} in {vertex.name}, but a plain execution gives {given[vertex.name]}",
            )
            require(all(map(sink.is_whole, handles)), f"checkpoint {id_} completed without all of {vertex.name}")
            self.committables[id_][vertex.name] = [handle.path for handle in handles]

    def _cut(
        self, id_: int, snapshots: Mapping[SubtaskId, Snapshot]
    ) -> tuple[dict[str, list[Row]], dict[SubtaskId, set[int]]]:
        """The rows that the checkpoint has read, by source, and the pieces that were read by then, by split."""
        cut: dict[str, list[Row]] = {name: [] for name in self.world.sources}
        read: dict[SubtaskId, set[int]] = {}
        for name, source in self.world.sources.items():
            for split in range(source.num_splits()):
                subtask = SubtaskId(name, split)
                before = self.history.now.read.get(subtask, set())
                now = source.pieces_read(split, snapshots[subtask], self.world.storage.files)
                require(before <= now, f"checkpoint {id_} forgot what {subtask} had read: {sorted(before - now)}")
                cut[name] += [row for piece in sorted(now - before) for row in source.pieces[split][piece]]
                read[subtask] = now
        return cut, read

    def _drawn(self, snapshots: Mapping[SubtaskId, Snapshot]) -> dict[str, list[Row]]:
        """By step, the rows on record; their files go with the completion."""
        return {
            vertex.name: [
                (key, value)
                for handle in self._handles(vertex.operator_id, snapshots, HandleKind.EXCHANGE)
                for key, value in json.loads(self.world.storage.files[handle.path])
            ]
            for vertex in self.graph.producers
            if isinstance(vertex, StepVertex)
        }

    def state_of(self, operator_id: str, snapshots: Mapping[SubtaskId, Snapshot]) -> dict[int, int]:
        state: dict[int, int] = {}
        for handle in self._handles(operator_id, snapshots, HandleKind.RUN):
            require(handle.path in self.world.storage.files, f"state is gone from storage: {handle.path}")
            state |= values_of(handle, self.world.storage.files[handle.path], self.graph.pipeline.max_parallelism)
        return state

    def _handles(
        self, operator_id: str, snapshots: Mapping[SubtaskId, Snapshot], kind: HandleKind
    ) -> list[StateHandle]:
        mine = [snapshots[subtask] for subtask in sorted(snapshots) if subtask.operator_id == operator_id]
        return [handle for snapshot in mine for handle in snapshot.handles if handle.kind is kind]

    # -- messages

    def asks(self, task: SnapshotTask) -> None:
        """A region is asked: the checkpoint is durable, and it starts from the latest completed one, whole."""
        state = self.world.store.state
        record = state.checkpoints.get(task.checkpoint_id)
        require(record is not None, f"checkpoint {task.checkpoint_id} is asked for, but not recorded")
        for subtask, attempt in task.attempts.items():
            known = state.subtasks[task.checkpoint_id][subtask]
            require(known.attempt >= attempt >= 1, f"attempt {attempt} of {subtask} is not recorded")
        if record is not None and record.status is Status.IN_PROGRESS and self._is_current(task):
            latest = self.history.now.checkpoint_id
            require(
                (latest > 0) == bool(task.restored), f"checkpoint {task.checkpoint_id} does not start from {latest}"
            )
            for vertex in self.graph.keyed:
                require(
                    self.state_of(vertex.operator_id, task.restored) == self.sequential.states[vertex.name],
                    f"checkpoint {task.checkpoint_id} restores {vertex.name} from elsewhere than the latest completed",
                )

    def judges(self, id_: int, subtasks: Mapping[SubtaskId, SubtaskRecord]) -> None:
        """A validator found the checkpoint good, with exactly these snapshots."""
        self.judged.setdefault(id_, []).append({subtask: known.snapshot for subtask, known in subtasks.items()})

    def answers(
        self, id_: int, acks: Sequence[Acknowledgement], results: Mapping[SubtaskId, AcknowledgeResult]
    ) -> None:
        """A report was answered: only what is on record counted, and it counted once."""
        known = self.world.store.state.subtasks.get(id_, {})
        for ack in acks:
            result = results[ack.subtask]
            if result in COUNTED:
                same = known[ack.subtask].snapshot == ack.snapshot and known[ack.subtask].attempt == ack.attempt
                require(same, f"{ack.subtask} was answered {result}, but another snapshot is on record")
            if result is AcknowledgeResult.SUCCESS:
                require((id_, ack.subtask) not in self.counted, f"{ack.subtask} of checkpoint {id_} counted twice")
                self.counted.add((id_, ack.subtask))

    def repeats(self, step: str, id_: int, answer: object) -> None:
        """A step that is repeated gives its first answer."""
        first = self.answered.setdefault((step, id_), answer)
        require(first == answer, f"{step} of checkpoint {id_} answers {answer}, but first it was {first}")

    def tells(self, sink: SimulatedSink, id_: int, staged: Sequence[StateHandle]) -> None:
        """A sink is told to commit, after all others that the checkpoint follows."""
        record = self.world.store.state.checkpoints.get(id_)
        committed = record is not None and record.status in COMMITTED
        require(committed, f"{sink.name} is notified of checkpoint {id_}, which has not completed")
        marker = marker_path(self.graph.pipeline.name, id_)
        gone = record is None or record.status is not Status.COMPLETED  # who was overtaken may still go on
        require(
            gone or marker in self.world.storage.files, f"rows of checkpoint {id_} are shown before its marker is there"
        )
        earlier = self.history.moments[id_].branch - {id_} - self.knows[sink.name]
        require(not earlier, f"{sink.name} is notified of checkpoint {id_} before {sorted(earlier)}")
        self.shows(sink, id_, staged)

    def shows(self, sink: SimulatedSink, id_: int, staged: Sequence[StateHandle]) -> None:
        """What a sink is to show of a checkpoint is what that has staged."""
        same = [handle.path for handle in staged] == self.committables[id_][sink.name]
        require(same, f"{sink.name} is to show other files than checkpoint {id_} has")

    def missed(self, id_: int) -> list[str]:
        """The sinks that have rows of a checkpoint and were not notified of it."""
        subtasks = self.world.store.state.subtasks.get(id_, {}).values()
        asked = {known.subtask.operator_id for known in subtasks if known.attempt}
        return [name for name, known in self.knows.items() if f"{name}-sink" in asked and id_ not in known]

    def told(self, sink: SimulatedSink, id_: int) -> None:
        self.knows[sink.name].add(id_)

    # -- files

    def deletes(self, owner: str, path: str) -> None:
        """A file is about to be deleted: nothing that is retained or still to be delivered may refer to it."""
        for record in self.world.store.state.checkpoints.values():
            if record.status is Status.COMPLETED:
                require(
                    (owner, path) not in self.references(record),
                    f"{path} is deleted, but checkpoint {record.checkpoint_id} refers to it",
                )

    def references(self, record: CheckpointRecord) -> set[tuple[str, str]]:
        """Owner and path of every file that a completed checkpoint still needs."""
        needed = {("storage", path) for path in with_markers([record.metadata_path or ""])}
        for subtask, known in self.world.store.state.subtasks[record.checkpoint_id].items():
            for handle in known.snapshot.handles:
                if handle.kind is HandleKind.STAGED:
                    needed.add((f"sink:{subtask.operator_id}", handle.path))
                elif handle.kind is not HandleKind.EXCHANGE:
                    needed.add(("storage", handle.path))
        return needed

    def misses_a_file(self, task: SnapshotTask, error: Exception) -> None:
        """Only an attempt that was abandoned may find files gone."""
        record = self.world.store.state.checkpoints[task.checkpoint_id]
        wanted = record.status is Status.IN_PROGRESS and self._is_current(task)
        require(not wanted, f"a file that checkpoint {task.checkpoint_id} needs is gone: {error}")

    def lost_a_write(self, id_: int) -> bool:
        """Whether the disk has not kept what a sink staged for the checkpoint."""
        return not all(
            self.world.sinks[subtask.operator_id.removesuffix("-sink")].is_whole(handle)
            for subtask, known in self.world.store.state.subtasks[id_].items()
            for handle in known.snapshot.handles
            if handle.kind is HandleKind.STAGED
        )

    def _is_current(self, task: SnapshotTask) -> bool:
        known = self.world.store.state.subtasks[task.checkpoint_id]
        return all(known[subtask].attempt == attempt for subtask, attempt in task.attempts.items())

    def _exists(self, subtask: SubtaskId, handle: StateHandle) -> bool:
        if handle.kind is not HandleKind.STAGED:
            return handle.path in self.world.storage.files
        return handle.path in self.world.sinks[subtask.operator_id.removesuffix("-sink")].staged
