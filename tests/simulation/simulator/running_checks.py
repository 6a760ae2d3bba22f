"""What must hold in a simulated continuous run after every commit, and which checkpoint follows which there. The rules
under test are not asked.
"""

from typing import TYPE_CHECKING, Any

from simulator.running_expiring import LIVES, check_expiring, log_rows
from simulator.running_in_the_commit import InTheCommit
from simulator.running_lasting import Lasting
from simulator.running_log import rows_of
from simulator.running_parts import PlainJobs, Rows
from simulator.running_plain import plain_execution, rows_before
from simulator.running_windows import WINDOWED, check_shown, check_windows
from simulator.scheduler import require
from tidegate.coordination.recovery.restore import Target, ToCheckpoint
from tidegate.dataflow.in_flight import in_flight_of
from tidegate.ports import SinkInput
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import CheckpointRecord, HandleKind, Snapshot, SubtaskId

if TYPE_CHECKING:
    from simulator.running import Running


class Checks:
    """Of one run. `now` is the checkpoint that the next one follows, 0 for none."""

    def __init__(self, world: "Running") -> None:
        self.world = world
        self.now = 0
        self.branches: dict[int, frozenset[int]] = {0: frozenset()}
        self.wanted: Target | None = None
        self.in_the_commit = InTheCommit(world)
        self.lasting = Lasting(world)

    def check(self, before: Any, after: Any) -> None:
        """After every commit."""
        if before is after:
            return
        self.world.holding.check(before, after, self.world.clock.now())
        for lag in after.lag:
            arrived = sum(source.most_pending() for source in self.world.sources if source.name == lag.source)
            require(0 <= lag.pending <= arrived, f"{lag.source} is {lag.pending} behind, and {arrived} have arrived")
        for restore in after.restores[len(before.restores) :]:
            self._goes_back(restore, before, after)
        for id_, record in after.checkpoints.items():
            if (known := before.checkpoints.get(id_)) is record:
                continue
            if record.status is Status.COMPLETED and (known is None or known.status is not Status.COMPLETED):
                self.world.tell(f"checkpoint {id_} completes")
                follows = self.now
                self._follows(id_, before, after)
                snapshots = {key: row.snapshot for key, row in after.subtasks[id_].items()}
                self.in_the_commit.completes(id_, snapshots)
                self.lasting.completes(id_, follows, snapshots)
                self._verify(record, snapshots)
        self.in_the_commit.check()
        self.world.overlapping.check(self.world, before, after)
        was_rewinding = bool(before.restores) and before.restores[-1].rewound_at is None
        if was_rewinding and after.restores[-1].rewound_at is not None:
            self._check_tables(after)

    def _goes_back(self, restore: Any, before: Any, after: Any) -> None:
        """To where somebody wanted it, and what ran does not run any more."""
        kept = before.checkpoints[restore.checkpoint_id].status is Status.COMPLETED
        wanted = getattr(self.wanted, "checkpoint_id", None) or restore.checkpoint_id
        require(kept and restore.checkpoint_id == wanted, f"{self.wanted} is recorded as {restore}")
        if self.wanted == ToCheckpoint(None):
            require(restore.checkpoint_id == self.now, f"the latest is {self.now}, but {restore}")
        going = [id_ for id_, record in after.checkpoints.items() if record.status is Status.IN_PROGRESS]
        require(not going, f"checkpoints {going} go on although the pipeline was restored")
        require(after.region.seen_at is None, "a region goes on although the pipeline was restored")
        self.now = restore.checkpoint_id

    def _follows(self, id_: int, before: Any, after: Any) -> None:
        """It was begun after the last restore, and has read what the checkpoint before it has, and perhaps more."""
        last = after.restores[-1].last_checkpoint_id if after.restores else 0
        require(id_ > max(last, self.now), f"checkpoint {id_} completes after the pipeline went back to {self.now}")
        now, then = (
            self.offsets({key: row.snapshot for key, row in after.subtasks.get(at, {}).items()})
            for at in (id_, self.now)
        )
        back = {split: (offset, now.get(split)) for split, offset in then.items() if now.get(split, 0) < offset}
        require(not back, f"checkpoint {id_} goes back behind {self.now}: {back}")
        self.branches[id_] = self.branches[self.now] | {id_}
        self.now = id_

    def _check_tables(self, after: Any) -> None:
        """Once the sinks are rewound, readers see what the present branch has committed, and nothing else."""
        present = self.branches[self.now]
        for sink in self.world.graph.sinks:
            outside = sink.sink.visible.keys() - present
            require(not outside, f"{sink.name} shows checkpoints {outside}, which were left behind")
            if sink.sink.input is SinkInput.CHANGES:
                lost = (sink.sink.told & present) - sink.sink.visible.keys()
                require(not lost, f"{sink.name} does not show checkpoints {lost}")

    def check_kept(self) -> None:
        """The rows that a kept checkpoint rests on are somewhere, also if it was left behind."""
        state = self.world.store.state
        for id_, record in state.checkpoints.items() if state.restores else ():
            if record.status is Status.COMPLETED and record.abandoned_by is not None:
                for sink in self.world.graph.sinks:
                    table = sink.sink
                    lost = (table.told & self.branches[id_]) - table.visible.keys() - table.away.keys()
                    mine = table.input is SinkInput.CHANGES
                    require(not (mine and lost), f"{sink.name} has lost {lost}, which checkpoint {id_} rests on")

    def _verify(self, record: CheckpointRecord, snapshots: dict[SubtaskId, Snapshot]) -> None:
        """The state is what lies before the barriers, and every file of it is there."""
        self.world.verified += 1
        for snapshot in snapshots.values():
            for handle in snapshot.handles:
                there = handle.kind is HandleKind.STAGED or handle.path in self.world.disk.files
                require(there, f"checkpoint {record.checkpoint_id} completes without its file {handle.path}")
        states = self.states(snapshots)
        expected = plain_execution(self.world.graph, self.offsets(snapshots))
        self._check_windows(f"checkpoint {record.checkpoint_id}", snapshots, states)
        self._check_expiring(record, snapshots, states)
        for vertex in self.world.graph.keyed:
            if vertex.window is not None or vertex.ttl is not None:
                continue
            straight = {stream.origin for stream in vertex.inputs} <= {source.name for source in self.world.sources}
            if straight or not self.world.config.unaligned:  # else more is on its way, further up
                self.compare(f"checkpoint {record.checkpoint_id}", vertex.name, states, expected)

    def _check_windows(self, what: str, snapshots: dict[SubtaskId, Snapshot], states: dict[str, Rows]) -> int | None:
        """Unless rows may count again. What is on its way has not come there."""
        first = self.world.sources[0].name
        if WINDOWED not in states or self.world.config.mode != "EXACTLY_ONCE":
            return None
        splits = {first: len(self.world.sources[0].lengths)}
        on_its_way: list[Any] = [data for _, data in in_flight_of(snapshots[SubtaskId(WINDOWED, 0)])]
        ahead = {row for segment in on_its_way for row in rows_of(segment)}
        rows = [row for row in rows_before(first, splits, self.offsets(snapshots)) if row not in ahead]
        return check_windows(self.world, what, snapshots, states[WINDOWED], rows)

    def _check_expiring(
        self, record: CheckpointRecord, snapshots: dict[SubtaskId, Snapshot], states: dict[str, Rows]
    ) -> None:
        """Unless rows may count again."""
        if LIVES not in states or self.world.config.mode != "EXACTLY_ONCE":
            return
        read = next(vertex.inputs for vertex in self.world.graph.keyed if vertex.name == LIVES)
        splits, offsets = {s.name: len(s.lengths) for s in self.world.sources}, self.offsets(snapshots)
        rows = {(s.origin, *row) for s in read for row in rows_before(s.origin, splits, offsets)}
        ahead = log_rows(data for _, data in in_flight_of(snapshots[SubtaskId(LIVES, 0)]))
        check_expiring(self.world, record, snapshots, states[LIVES], rows.difference(ahead))

    def check_windows_in_the_end(self, snapshots: dict[SubtaskId, Snapshot]) -> None:
        states = self.states(snapshots)
        watermark = self._check_windows("in the end", snapshots, states)
        if watermark is not None:
            lengths = self.world.sources[0].lengths
            rows = [(split, at) for split, n in enumerate(lengths) for at in range(n)]
            check_shown(self.world, watermark, states[WINDOWED], rows)

    def compare(self, what: str, name: str, states: dict[str, Rows], expected: dict[str, Rows]) -> None:
        if self.world.config.mode == "EXACTLY_ONCE":
            require(states[name] == expected[name], f"{what}: {name} is {states[name]}, and should be {expected[name]}")
        else:
            missing = {key for key, value in expected[name].items() if states[name].get(key, 0) < value}
            require(not missing, f"{what}: {name} is {states[name]}, which misses some of {expected[name]}")

    def states(self, snapshots: dict[SubtaskId, Snapshot]) -> dict[str, Rows]:
        """Of every operator, with what is on its way to it."""
        plans = {plan.operator_id: plan for plan in self.world.graph.plan}
        result: dict[str, Rows] = {}
        jobs = PlainJobs(self.world.graph, self.world.disk, lambda what: None, self.world.unique, self.world.random)
        for vertex in self.world.graph.keyed:
            state: Rows = {}
            for index in range(plans[vertex.operator_id].parallelism):
                handles = snapshots.get(SubtaskId(vertex.operator_id, index), Snapshot()).handles
                state |= jobs.state([handle for handle in handles if handle.kind is HandleKind.RUN], index)
            on_its_way = in_flight_of(snapshots.get(SubtaskId(vertex.operator_id, 0)))
            on_its_way = [] if vertex.window is not None or vertex.ttl is not None else on_its_way
            for key, value in jobs._values([[data for _, data in on_its_way]], vertex):
                state[key] = vertex.update.merge(state.get(key), value)
            result[vertex.name] = state
        return result

    def offsets(self, snapshots: dict[SubtaskId, Snapshot]) -> dict[SubtaskId, int]:
        return {key: number for each in self.world.sources for key, number in each.offsets(snapshots).items()}

    def missed(self, id_: int) -> list[str]:
        """The tables that have rows of a checkpoint and were not told."""
        rows = self.world.store.state.subtasks.get(id_, {})
        staged = {
            key.operator_id for key, row in rows.items() for h in row.snapshot.handles if h.kind is HandleKind.STAGED
        }
        return [
            sink.name for sink in self.world.graph.sinks if sink.operator_id in staged and id_ not in sink.sink.told
        ]

    def deletes(self, path: str) -> None:
        for id_, record in self.world.store.state.checkpoints.items():
            if record.status is Status.COMPLETED:
                for row in self.world.store.state.subtasks[id_].values():
                    kept = [
                        h.path for h in row.snapshot.handles if h.kind not in (HandleKind.STAGED, HandleKind.EXCHANGE)
                    ]
                    require(path not in kept, f"{path} is deleted, but checkpoint {id_} refers to it")
