"""Several checkpoints of a simulated continuous run at once: how many, how slow what completes them is, and what must
hold then. The rules under test are not asked."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from simulator.running_plain import rows_before
from simulator.running_ports import Judge
from simulator.scheduler import require
from tidegate.pipeline.config import CheckpointConfig
from tidegate.ports import SinkInput
from tidegate.protocol.facts.lifecycle import COMMITTED, Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind, HandleKind

if TYPE_CHECKING:
    from simulator.running import Running

MINUTE = timedelta(minutes=1)  # for which a region that says nothing is taken to live


class Overlapping:
    """Of one run. `judged`: by checkpoint, the staged files that its verdicts are on. `met`: how often so many were in
    progress at once."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(f"overlap {seed}")
        self.at_once = random.choice([1, 1, 2, 2, 3, 4])
        self.pace = random.choice([0.3, 0.1, 0.05])  # with which what runs beside the rounds comes to an end
        self.judged: dict[int, set[str]] = {}
        self._judged_rows: dict[int, Counter[tuple[str, str]]] = {}
        self.met: Counter[int] = Counter()
        self._appended: dict[int, dict[str, Counter[Any]]] = {}
        self._is_meddling = False

    def draw(self, config: CheckpointConfig) -> CheckpointConfig:
        """What is unaligned has one at a time; otherwise there are enough checkpoints for several."""
        if config.unaligned or self.at_once == 1:
            self.at_once, self.pace = 1, 0.3
            return config
        interval = self.random.choice([config.interval, "3 s"])
        return replace(config, max_concurrent=self.at_once, interval=interval, interval_during_backlog=None)

    def one_of(self, world: "Running", newest: int) -> int:
        """The checkpoint that somebody meddles with."""
        going = [id_ for id_, each in world.store.state.checkpoints.items() if each.status is Status.IN_PROGRESS]
        return self.random.choice(going) if len(going) > 1 else newest

    def meanwhile(self, world: "Running") -> None:
        """Another process completes a checkpoint while one is judged, or between its verdict and its commit."""
        going = [id_ for id_, each in world.store.state.checkpoints.items() if each.status is Status.IN_PROGRESS]
        if self._is_meddling or len(going) < 2 or self.random.random() >= 0.3:
            return
        other, coordinator = self.random.choice(going), world.coordinator()
        self._is_meddling = True
        world.tell(f"somebody completes {other} meanwhile")
        world.attempt(lambda: coordinator.finalize(coordinator.validate(other, Judge(world)).record.checkpoint_id))
        self._is_meddling = False

    def notify(self, world: "Running") -> None:
        """Another process takes over from one that stands still while it commits sinks."""
        newest = max(
            (id_ for id_, each in world.store.state.checkpoints.items() if each.status in COMMITTED), default=0
        )
        if not self._is_meddling and newest:
            self._is_meddling = True
            world.tell(f"somebody notifies {newest} meanwhile")
            world.attempt(lambda: world.coordinator().notify(newest))
            self._is_meddling = False

    def judges(self, world: "Running", id_: int, subtasks: Any) -> None:
        """A checkpoint is judged, with what its subtasks have staged."""
        self.judged[id_] = {h.path for row in subtasks.values() for h in row.snapshot.handles if _is_staged(h)}
        self._judged_rows[id_] = _rows_staged(world, subtasks)

    def check(self, world: "Running", before: Any, after: Any) -> None:
        """After every commit."""
        going = [id_ for id_, each in after.checkpoints.items() if each.status is Status.IN_PROGRESS]
        self.met[len(going)] += 1
        for id_, record in after.checkpoints.items():
            if (known := before.checkpoints.get(id_)) is record:
                continue
            if known is None and record.kind is CheckpointKind.CHECKPOINT:
                lives = after.region.seen_at is not None and record.triggered_at - after.region.seen_at <= MINUTE
                at_once = self.at_once if lives else 1
                require(len(going) <= at_once, f"checkpoint {id_} is one too many at once: {going}")
            if record.failure_reason is FailureReason.CHECKPOINT_SUBSUMED:
                newer = [each for each in after.checkpoints if each > id_]
                require(bool(newer), f"checkpoint {id_} was subsumed by nothing")
                kept = record.kind is not CheckpointKind.CHECKPOINT
                require(not kept, f"savepoint {id_} was subsumed before it completed")
            if record.status is Status.COMPLETED and (known is None or known.status is not Status.COMPLETED):
                self._completes(world, id_, after)
        self._check_visible(world, after)

    def _completes(self, world: "Running", id_: int, after: Any) -> None:
        left = [i for i, each in after.checkpoints.items() if i < id_ and each.status is Status.IN_PROGRESS]
        require(not left, f"checkpoint {id_} completes, and {left} are still in progress")
        staged = {h.path for row in after.subtasks[id_].values() for h in row.snapshot.handles if _is_staged(h)}
        if after.verdicts.get(id_) and not any(each.carried_from for each in after.verdicts[id_]):
            judged, others = self.judged[id_], _rows_staged(world, after.subtasks[id_]) - self._judged_rows[id_]
            held = after.checkpoints[id_].held_at is not None  # and an older one may have completed since, see 055
            require(judged == staged or (held and not others),
                    f"checkpoint {id_} shows {staged}, and its verdicts are on {judged}")  # fmt: skip
        self._check_appended(world, id_, after)

    def _check_appended(self, world: "Running", id_: int, after: Any) -> None:
        """With each checkpoint a table of a log's rows has all that were read, once each."""
        if world.config.unaligned or world.config.mode != "EXACTLY_ONCE":
            return
        offsets = world.checks.offsets({key: row.snapshot for key, row in after.subtasks[id_].items()})
        self._appended[id_] = {}
        logs = {source.name: source for source in world.sources}
        for sink in world.graph.sinks:
            if sink.sink.input is not SinkInput.CHANGES or sink.input.origin not in logs:
                continue
            rows = Counter(
                tuple(row)
                for key, known in after.subtasks[id_].items()
                if key.operator_id == sink.operator_id
                for handle in known.snapshot.handles
                for row in sink.sink.staged[handle.path]
            )
            self._appended[id_][sink.name] = rows
            behind = world.checks.branches[id_]
            shown: Counter[Any] = sum((self._appended[i].get(sink.name, Counter()) for i in behind), Counter())
            log = logs[sink.input.origin]
            expected = Counter(rows_before(log.name, {log.name: len(log.lengths)}, offsets))
            require(shown == expected, f"with checkpoint {id_} {sink.name} has {shown}, and should have {expected}")

    def _check_visible(self, world: "Running", after: Any) -> None:
        for sink in world.graph.sinks:
            early = [i for i in sink.sink.visible if after.checkpoints[i].status not in COMMITTED]
            require(not early, f"{sink.name} shows rows of checkpoints {early}, which have not completed")


def _rows_staged(world: "Running", subtasks: Any) -> Counter[tuple[str, str]]:
    return Counter(
        (sink.name, repr(row))
        for sink in world.graph.sinks
        for key, known in subtasks.items()
        if key.operator_id == sink.operator_id
        for handle in known.snapshot.handles
        if _is_staged(handle)
        for row in sink.sink.staged.get(handle.path, ())
    )


def _is_staged(handle: Any) -> bool:
    return handle.kind is HandleKind.STAGED
