"""The machine of `checkpoint_machine` with continuous regions among the steps: started, overtaken,
dead and back as zombies.

A region goes on from what it has in memory, also after a checkpoint of its own was aborted, and writes below a
directory of its attempt before it knows of any checkpoint. So a zombie that could make something count would lose or
double a step, and a file deleted too early would be missed.
"""

from dataclasses import dataclass, field, replace

from checkpoint_machine import PICK, STOPS, VERDICTS, WHO, CheckpointMachine, WorkingRegion
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from worlds import CapturingRegion

from tidegate.protocol.continuous.regions import RegionStart, is_current
from tidegate.protocol.facts.errors import (
    CheckpointHeldError,
    PipelineFailedError,
    PipelineStatusError,
    SupersededAttemptError,
)
from tidegate.protocol.facts.lifecycle import COMMITTED
from tidegate.protocol.facts.paths import shared_directory
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    Acknowledgement,
    AcknowledgeResult,
    CheckpointRecord,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
)
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.protocol.steps.trigger import Dropped

FATES = st.sampled_from(
    [
        *["all goes well"] * 4,
        *("it was aborted", "aborted at the end", "it ends", "another took over"),
        *("it was taken for dead", "a scheduled run took it"),
    ]
)


@dataclass
class LivingRegion:
    """What a region's process has in memory: per subtask the steps that completed and the runs it reads."""

    attempt: int
    steps: dict[SubtaskId, int]
    runs: dict[SubtaskId, tuple[StateHandle, ...]]
    asked: dict[int, SnapshotTask] = field(default_factory=dict)


class RegionMachine(CheckpointMachine):
    """Subclasses say which store."""

    def regions(self) -> list[LivingRegion]:
        return self.__dict__.setdefault("_regions", [])

    @rule(who=WHO)
    def start_a_region(self, who: int) -> None:
        refused = PipelineStatusError, PipelineFailedError, CheckpointHeldError
        done, start = self.do(who, lambda c: c.start_region(), *refused)
        if isinstance(start, CheckpointRecord):  # approved: it is completed first
            self.finish(who, start.checkpoint_id, False)
        elif done:
            self.regions().append(self.born(start))

    def born(self, start: RegionStart) -> LivingRegion:
        with self.store.transaction(self.name) as tx:
            latest = tx.latest_completed()
        assert start.checkpoint_id == (None if latest is None else latest.checkpoint_id)
        steps = {key: known.position["steps"] for key, known in start.restored.items() if known.position}
        return LivingRegion(start.attempt, steps, {key: _runs(known) for key, known in start.restored.items()})

    @precondition(lambda self: self.regions())
    @rule(who=WHO, pick=PICK)
    def a_region_works(self, who: int, pick: int) -> None:
        """It writes a run and drops its oldest; also one that was overtaken and does not know."""
        region = self.one(pick)
        key = SubtaskId("op", pick % 2)
        path = f"{shared_directory(self.name, region.attempt)}/{key}-{region.attempt}-{next(self.files)}"
        self.storage.write(path, b"rows")
        run = StateHandle(path, HandleKind.RUN, 1, 1, "0" * 64, 0)
        region.runs[key] = (*region.runs.get(key, ()), run)[-3:]

    @precondition(lambda self: self.regions())
    @rule(who=WHO, pick=PICK)
    def a_region_begins(self, who: int, pick: int) -> None:
        region, record = self.one(pick), self.pick(0)
        if record is None:
            return
        current = is_current(self.store.region(self.name), region.attempt)
        done, task = self.do(
            who, lambda c: c.begin_snapshot(region.attempt, record.checkpoint_id), SupersededAttemptError
        )
        assert current or not done
        if done and task is not None:
            region.asked[record.checkpoint_id] = task

    @precondition(lambda self: any(region.asked for region in self.regions()))
    @rule(who=WHO, pick=PICK, again=st.booleans())
    def a_region_reports(self, who: int, pick: int, again: bool) -> None:
        region = self.one(pick)
        if not region.asked:
            return
        task = region.asked[max(region.asked)]
        current = is_current(self.store.region(self.name), region.attempt)
        acks = [self.taken(region, task, key) for key in sorted(task.attempts)]
        for _ in range(1 + again):
            done, results = self.do(who, lambda c: c.record_acknowledgements(task.checkpoint_id, acks))
            if done and AcknowledgeResult.SUCCESS in results.values():
                assert current, "a zombie made something count"
                known = self.store.subtasks(self.name, task.checkpoint_id)
                assert all(known[ack.subtask].snapshot == ack.snapshot for ack in acks)

    def taken(self, region: LivingRegion, task: SnapshotTask, key: SubtaskId) -> Acknowledgement:
        """One more step than the latest checkpoint that completed with this region's snapshot,
        or that it began with."""
        for checkpoint_id in sorted(region.asked):
            record = self.store.checkpoint(self.name, checkpoint_id)
            if record is not None and record.status in COMMITTED:
                known = self.store.subtasks(self.name, checkpoint_id)[key].snapshot.position
                assert known is not None
                region.steps[key] = max(region.steps.get(key, 0), known["steps"])
        position = {"steps": region.steps.get(key, 0) + 1}
        if key.operator_id == "src":
            return Acknowledgement(key, task.attempts[key], Snapshot((), position))
        if key.operator_id == "out-sink":
            return self.take(replace(task, restored={key: Snapshot((), {"steps": position["steps"] - 1})}), key)
        region.runs[key] = tuple(
            replace(run, created_by=run.created_by or task.checkpoint_id) for run in region.runs.get(key, ())
        )
        return Acknowledgement(key, task.attempts[key], Snapshot(region.runs[key], position))

    @rule(who=WHO, request=st.integers(0, 60), pick=PICK, fate=FATES, verdict=VERDICTS)
    def a_whole_life(self, who: int, request: int, pick: int, fate: str, verdict: object) -> None:
        """All steps of a checkpoint by a region, with some trouble between its snapshot and its reports."""
        known = self.store.region(self.name)
        if not any(is_current(known, region.attempt) for region in self.regions()):
            self.start_a_region(who)
        done, outcome = self.do(who, lambda c: c.trigger(f"r{request}"), *STOPS)
        if not self.regions() or not done or isinstance(outcome, Dropped):
            return
        region, id_ = self.regions()[-1], outcome.checkpoint_id
        for number in range(3):
            self.a_region_works(who, number)
        if fate == "a scheduled run took it":  # and the region does not know
            self.clock.advance(61)
            self.snapshot(who, id_, WorkingRegion(self, who, None, False))
            return self.finish(who, id_, verdict)
        self.a_region_begins(who, 0)
        match fate:
            case "it was aborted":
                self.do(who, lambda c: c.abort(id_, FailureReason.CHECKPOINT_DECLINED, "declined"))
            case "another took over":
                self.start_a_region(1 - who)
                self.regions()[-2:] = reversed(self.regions()[-2:])  # the zombie reports
            case "it was taken for dead":
                self.clock.advance(61)
                self.snapshot(who, id_, CapturingRegion())
        self.a_region_reports(who, 0, False)
        if fate == "aborted at the end":
            self.do(who, lambda c: c.abort(id_, FailureReason.CHECKPOINT_DECLINED, "declined"))
        self.finish(1 - who, id_, verdict)
        self.regions().sort(key=lambda one: one.attempt)
        if fate == "it ends":
            self.do(who, lambda c: c.end_region(region.attempt))

    @precondition(lambda self: self.regions())
    @rule(who=WHO, pick=PICK, seconds=st.sampled_from([1, 30, 90]))
    def time_passes_and_a_region_says_that_it_lives(self, who: int, pick: int, seconds: int) -> None:
        self.clock.advance(seconds)
        self.do(who, lambda c: c.keep_region(self.one(pick).attempt), SupersededAttemptError)

    @precondition(lambda self: self.regions())
    @rule(who=WHO, pick=PICK)
    def a_region_ends(self, who: int, pick: int) -> None:
        self.do(who, lambda c: c.end_region(self.one(pick).attempt))

    @invariant()
    def the_region_that_runs_finds_its_files(self) -> None:
        known = self.store.region(self.name)
        for region in self.regions():
            if is_current(known, region.attempt):
                for runs in region.runs.values():
                    assert {run.path for run in runs} <= self.storage.files.keys()

    def teardown(self) -> None:
        if hasattr(self, "coordinators"):
            for mortal in self.mortals:
                mortal.plan = None
            self.coordinators[0].end_region(self.store.region(self.name).attempt)
        super().teardown()

    def one(self, pick: int) -> LivingRegion:
        """Mostly the newest, now and then an older one."""
        return self.regions()[-1 if pick < 7 else pick % len(self.regions())]


def _runs(snapshot: Snapshot) -> tuple[StateHandle, ...]:
    return tuple(handle for handle in snapshot.handles if handle.kind is HandleKind.RUN)
