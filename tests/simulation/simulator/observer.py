"""Watches every commit, and holds what it sees against the eight invariants. It decides by what is recorded and by what
the world contains, never by the rules under test.

What is in a checkpoint is compared in `comparison`, what is said between the parts in `messages`, what is deleted in
`live_files`.
"""

from typing import TYPE_CHECKING

from simulator.failures import check_failures
from simulator.history import History, Moment, Return, is_rewinding
from simulator.in_the_commit import check_tables
from simulator.live_files import exists
from simulator.requests import is_like
from simulator.restores import check_restores, check_subsumed
from simulator.rollup import check_rolled_up
from simulator.savepoints import FromDirectory, check_export, check_import
from simulator.scheduler import Process, require
from simulator.stops import check_finished, check_stops, require_finished_before
from simulator.topic_changes import check_skips
from simulator.weighing import check_sizes
from tidegate.coordination.recovery.restore import Target
from tidegate.pipeline.graph import Graph
from tidegate.protocol.facts.lifecycle import COMMITTED, TRANSITIONS, Stage, Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord, SubtaskId, SubtaskRecord
from tidegate.protocol.recovery.metadata import read_metadata
from tidegate.protocol.steps.admission import LEASE

if TYPE_CHECKING:
    from memory_state import PipelineState

    from simulator.world import World


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
        self.history = History(Moment(0, frozenset(), *world.comparison.sequential.came_to(), {}))
        self.returned: dict[Process | None, Return] = {}  # the restore that each has carried out
        self.wanted: dict[Process | None, Target | FromDirectory] = {}  # where each process that restores was to go
        self.disposes: dict[Process | None, int] = {}  # the savepoint that each is to dispose of
        self.only_read: set[Process | None] = set()  # processes that may delete nothing
        self.attempts: dict[Process | None, int] = {}  # the attempt at committing that each process has taken last

    def committed(self, before: "PipelineState", after: "PipelineState") -> None:
        """A transaction has become durable."""
        self._commits(before, after)
        process = self.world.scheduler.current
        now = self.world.clock.time if process is None else process.read_clock_at
        self.world.holding.check(before, after, now or self.world.clock.time)
        check_restores(self.world, before, after)
        if len(after.restores) > len(before.restores):
            self.world.comparison.sequential.go_on_from(self.history.now.states, self.history.now.outputs)
        for id_, record in reversed(after.checkpoints.items()):  # first the one that completes and subsumes others
            previous = before.checkpoints.get(id_)
            if previous is None and self.history.is_imported(id_):
                check_import(self.world, record)
                continue
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
        check_rolled_up(before, after)
        check_skips(self.world, before, after)
        if after.pipeline is not None and after.pipeline.status is PipelineStatus.SUSPENDED:
            going = [id_ for id_, record in after.checkpoints.items() if record.status is Status.IN_PROGRESS]
            require(not going, f"checkpoints {going} go on although the pipeline is suspended")
        require(before.checkpoints.keys() <= after.checkpoints.keys(), "a checkpoint was forgotten")
        check_tables(self.world.sinks)
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
        require(
            id_ > max(before.checkpoints | self.history.lost, default=0), f"checkpoint {id_} is not newer than others"
        )
        same = [known for known in after.checkpoints.values() if known.request_id == record.request_id]
        going = [known for known in same if known.status is Status.IN_PROGRESS]
        counts = self.history.answers_for(before, record.request_id)
        require(len(going) == 1 and not counts, f"{record.request_id} has two checkpoints")
        require(not is_rewinding(before), f"checkpoint {id_} begins before the sinks are rewound")
        waiting = [known for known in after.checkpoints.values() if known.status is Status.IN_PROGRESS]
        continuous = after.region.seen_at is not None  # somebody tries to run it continuously, and that may overlap
        require(len(waiting) == 1 or continuous, f"checkpoint {id_} was one too many at once")
        status = PipelineStatus.CREATED if before.pipeline is None else before.pipeline.status
        require(status in (PipelineStatus.CREATED, PipelineStatus.RUNNING), f"checkpoint {id_} began when {status}")
        if record.kind is not CheckpointKind.SYNC_SAVEPOINT:  # which aborts everything else
            self._comes_first(record, before)
        if record.periodic and (success := self.history.last_success(before)) is not None:
            pause = abs(record.triggered_at - success)  # one that is in the future is not waited for
            require(pause >= config.min_pause, f"periodic checkpoint {id_} came {pause} after the last success")

    def _comes_first(self, record: CheckpointRecord, before: "PipelineState") -> None:
        """No request that waits has precedence; those that nobody repeats have gone away. Of processes that wait for
        the same, any may be the first."""
        mine = before.requests.get(record.request_id)
        asked_at = record.triggered_at if mine is None else min(mine.asked_at, record.triggered_at)
        rank = (record.kind is CheckpointKind.CHECKPOINT, record.periodic, asked_at)
        for other in before.requests.values():
            there = other.dropped is None and record.triggered_at - other.seen_at <= LEASE
            asked_at = min(other.asked_at, record.triggered_at)  # a time in the future is not believed
            theirs = (other.kind is CheckpointKind.CHECKPOINT, other.periodic, asked_at)
            first = other is mine or not there or rank <= theirs or is_like(record, other)
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
        if record.exported_at is not None and previous.exported_at is None:
            check_export(self.world, record)
        if record.notified_at is not None and previous.notified_at is None:
            for name, known in self.world.messages.knows.items():
                was_asked = any(
                    s.attempt for s in after.subtasks[id_].values() if s.subtask.operator_id == f"{name}-sink"
                )
                require(
                    id_ in known or not was_asked, f"checkpoint {id_} counts as notified, but {name} was not notified"
                )

    def _subsumed(self, record: CheckpointRecord, after: "PipelineState") -> None:
        id_ = record.checkpoint_id
        if record.kind is not CheckpointKind.CHECKPOINT:
            given_up = self.disposes.get(self.world.scheduler.current) == id_
            return require(given_up, f"savepoint {id_} is its owner's, but was subsumed")
        if after.pipeline is not None and after.pipeline.status is PipelineStatus.CANCELLED:
            return  # nothing is retained any more
        if id_ in self.history.left_by:
            return check_subsumed(self.world, id_)
        present = self.history.records_in(after)
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
                require(
                    exists(self.world, subtask, handle), f"{handle.path} of {subtask} is gone when it is acknowledged"
                )

    def _completed(self, record: CheckpointRecord, before: "PipelineState", after: "PipelineState") -> None:
        id_, subtasks = record.checkpoint_id, after.subtasks[record.checkpoint_id]
        missing = [str(known.subtask) for known in subtasks.values() if known.acknowledged_at is None]
        require(not missing, f"checkpoint {id_} completed without {', '.join(missing)}")
        planned = {SubtaskId(plan.operator_id, i) for plan in record.operators for i in range(plan.parallelism)}
        require(set(subtasks) == planned, f"checkpoint {id_} completed with other subtasks than it was triggered for")
        snapshots = {subtask: known.snapshot for subtask, known in subtasks.items()}
        verdicts = {verdict.target: verdict.success for verdict in after.verdicts.get(id_, ())}
        for verdict in after.verdicts.get(id_, ()):
            self.world.messages.require_judged(id_, verdict, snapshots)
        good = all(verdicts.get(target) for target in self.graph.targets)
        overruled = all(verdicts.get(target) is not None for target in self.graph.targets)
        good = good or (overruled and self.world.holding.is_approved(record))
        require(good, f"checkpoint {id_} completed with {verdicts}")
        check_sizes(record, subtasks)
        self._written_down(record, after)
        require(not self.history.answers_for(before, record.request_id), f"{record.request_id} completed twice")
        check_finished(self.world, record, snapshots)
        self.world.comparison.completes(id_, snapshots)
        for operator_id in record.committed_sinks:
            self.world.messages.told(self.world.sinks[operator_id.removesuffix("-sink")], id_)

    def _written_down(self, record: CheckpointRecord, after: "PipelineState") -> None:
        """The metadata says what counts, and not what somebody believed who lost a transaction."""
        id_, path = record.checkpoint_id, record.metadata_path
        require(path in self.world.storage.files, f"checkpoint {id_} completed without metadata")
        said = read_metadata(record.pipeline_id, id_, self.world.storage.files[path])
        counts, written = (
            {subtask: (known.attempt, known.snapshot) for subtask, known in subtasks.items()}
            for subtasks in (after.subtasks[id_], said.subtasks)
        )
        other = [str(subtask) for subtask in counts if written.get(subtask) != counts[subtask]]
        require(not other, f"the metadata of checkpoint {id_} says something else of {', '.join(other)}")
        judged = {verdict.target: verdict.success for verdict in after.verdicts.get(id_, ())}
        said_of = {verdict.target: verdict.success for verdict in said.verdicts}
        require(said_of == judged, f"the metadata of checkpoint {id_} has other verdicts: {said_of}, not {judged}")
