"""Any order of protocol steps, by two coordinators on one store, with crashes and lost connections in between.

The machine knows nothing of the rules the coordinator decides by; it only remembers what it saw. What must hold after
every step is in `checkpoint_invariants`.
"""

import contextlib
import itertools
from collections.abc import Collection, Mapping
from typing import Any

from checkpoint_invariants import CheckpointInvariants
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from user_actions import approve, reject, resume, suspend
from worlds import (
    DEATHS,
    CapturingRegion,
    Crash,
    Judge,
    ManualClock,
    MemorySink,
    MemoryStorage,
    MortalStore,
    small_pipeline,
)

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.ports import CheckpointListener, CheckpointStore
from tidegate.protocol.facts.errors import (
    CheckpointDeclinedError,
    CheckpointError,
    CheckpointExpiredError,
    CheckpointHeldError,
    CheckpointNotInProgressError,
    FinalizeError,
    NotHeldError,
    PipelineFailedError,
    PipelineStatusError,
    StopIncompleteError,
    UnknownOutcomeError,
    ValidationFailedError,
)
from tidegate.protocol.facts.lifecycle import COMMITTED, Phase, Stage, Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    Acknowledgement,
    AcknowledgeResult,
    CheckpointKind,
    CheckpointRecord,
    CompactedRun,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
)
from tidegate.protocol.steps.restored_snapshots import apply_compactions
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.protocol.steps.trigger import AlreadyCompleted, Dropped, Queued

ENDED = (CheckpointNotInProgressError, CheckpointExpiredError)
STOPS = (PipelineFailedError, StopIncompleteError)  # a subtask failed its last savepoint; or somebody died after it
NOT_READY = (*ENDED, ValidationFailedError, CheckpointHeldError, FinalizeError)
WHO = st.integers(0, 1)
PICK = st.integers(0, 10)
KINDS = st.sampled_from([*[CheckpointKind.CHECKPOINT] * 5, *CheckpointKind])
VERDICTS = st.sampled_from([True, True, True, True, False, None, "missing", "held", "held"])


class WorkingRegion:
    """A region that reports everything and compacts the oldest two runs of each subtask."""

    def __init__(self, machine: "CheckpointMachine", who: int, meanwhile: Any, after_a_zombie: bool) -> None:
        self._machine = machine
        self._who = who
        self._meanwhile = meanwhile
        self._after_a_zombie = after_a_zombie

    def snapshot(self, task: SnapshotTask, acknowledge: Any) -> None:
        machine = self._machine
        machine.tasks.append(task)
        if self._after_a_zombie and len(machine.tasks) > 1:
            machine.report(1 - self._who, 1, "all")
        acks = [machine.take(task, subtask) for subtask in sorted(task.attempts)]
        machine.check_results(task, acks, acknowledge(acks))

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot]) -> list[CompactedRun]:
        machine, compactions = self._machine, []
        for subtask, snapshot in sorted(snapshots.items()):
            runs = [handle for handle in snapshot.handles if handle.kind is HandleKind.RUN]
            if len(runs) >= 2:
                path = f"{machine.name}/chk-{checkpoint_id}/{subtask}-compacted-{next(machine.files)}"
                machine.storage.write(path, b"rows")
                handle = StateHandle(path, HandleKind.RUN, 2, 2, "0" * 64, checkpoint_id)
                compactions.append(CompactedRun(subtask, handle, tuple(run.view for run in runs[:2])))
        if self._meanwhile is not None:
            self._meanwhile(1 - self._who)
        return compactions


class ListeningMachine(CheckpointListener):
    """A listener that looks what is so when it is notified."""

    def __init__(self, machine: "CheckpointMachine") -> None:
        self._machine = machine

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._hear(checkpoint_id, COMMITTED)

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed: int | None) -> None:
        self._hear(checkpoint_id, {Status.FAILED})

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        self._hear(checkpoint_id, {Status.SUBSUMED, Status.DISCARDED})

    def _hear(self, checkpoint_id: int, notified: Collection[Status]) -> None:
        record = self._machine.store.checkpoint(self._machine.name, checkpoint_id)
        if record is None or record.status not in notified:
            self._machine.untrue.append((checkpoint_id, notified, record))


class CheckpointMachine(CheckpointInvariants):
    """Subclasses say which store."""

    pipeline_numbers = itertools.count()

    def new_store(self) -> CheckpointStore:
        raise NotImplementedError

    @initialize()
    def begin(self) -> None:
        self.name = f"p{next(self.pipeline_numbers)}"
        self.store = self.new_store()
        self.clock, self.storage, self.sink = ManualClock(), MemoryStorage(), MemorySink()
        self.sink.before_commit = self.check_notified_after_commit
        self.mortals = [MortalStore(self.store) for _ in range(2)]
        pipeline = small_pipeline(self.sink, self.name, hold_for="20 min")
        pipeline.listen(ListeningMachine(self))
        self.coordinators = [
            CheckpointCoordinator(pipeline, mortal, self.storage, self.clock) for mortal in self.mortals
        ]
        self.tasks: list[SnapshotTask] = []
        self.files = itertools.count()
        self.untrue: list[Any] = []  # what listeners were notified of too early
        self.stages: dict[int, Stage] = {}
        self.acknowledged: dict[tuple[int, SubtaskId], Snapshot] = {}

    # -- steps

    @rule(who=WHO, request=st.integers(0, 6), periodic=st.booleans(), kind=KINDS, wait=st.booleans())
    def trigger(self, who: int, request: int, periodic: bool, kind: CheckpointKind, wait: bool) -> None:
        before = self.history()
        done, outcome = self.do(who, lambda c: c.trigger(f"r{request}", periodic, kind, wait), *STOPS)
        if done and any(record.request_id == f"r{request}" and record.status in COMMITTED for record in before):
            assert isinstance(outcome, AlreadyCompleted)
        if done and not isinstance(outcome, Dropped | Queued):
            record = self.store.checkpoint(self.name, outcome.checkpoint_id)
            assert record is not None
            assert record.request_id == f"r{request}"
        ids = {record.checkpoint_id for record in before}
        for record in self.history():
            assert record.checkpoint_id in ids or record.checkpoint_id > max(ids, default=0)

    @rule(who=WHO, running=st.booleans())
    def suspend_or_resume(self, who: int, running: bool) -> None:
        self.do(who, resume if running else suspend, PipelineStatusError)

    @rule(who=WHO, pick=PICK, attempts=st.integers(1, 3))
    def begin_attempts(self, who: int, pick: int, attempts: int) -> None:
        """Regions that are asked and do nothing yet: all but the last are zombies, and may report later."""
        record = self.pick(pick)
        for _ in range(attempts if record is not None else 0):
            region = CapturingRegion(self.check_recorded_before_asked)
            self.snapshot(who, record.checkpoint_id, region)
            if region.task is not None:
                self.tasks.append(region.task)

    def snapshot(self, who: int, checkpoint_id: int, region: Any) -> None:
        self.do(who, lambda c: c.snapshot(checkpoint_id, region), CheckpointDeclinedError, *ENDED)

    @precondition(lambda self: self.tasks)
    @rule(who=WHO, pick=PICK, share=st.sampled_from(["all", "one", "sources", "again"]))
    def report(self, who: int, pick: int, share: str) -> None:
        """A region reports, whether or not it is still wanted: a zombie is a task that was taken long ago."""
        task = self.tasks[-1 - pick % len(self.tasks)]
        subtasks = sorted(task.attempts)
        if share == "one":
            subtasks = subtasks[pick % len(subtasks) :][:1]
        elif share == "sources":
            subtasks = [subtask for subtask in subtasks if subtask.operator_id == "src"]
        acks = [self.take(task, subtask) for subtask in subtasks]
        for _ in range(2 if share == "again" else 1):
            done, results = self.do(who, lambda c: c.record_acknowledgements(task.checkpoint_id, acks))
            if done:
                self.check_results(task, acks, results)

    @rule(who=WHO, pick=PICK)
    def report_something_never_asked_for(self, who: int, pick: int) -> None:
        record = self.pick(pick)
        if record is not None:
            foreign = Acknowledgement(SubtaskId("nobody", 0), 1, Snapshot())
            done, results = self.do(who, lambda c: c.record_acknowledgements(record.checkpoint_id, [foreign]))
            assert not done or set(results.values()) == {AcknowledgeResult.UNKNOWN}

    @rule(who=WHO, pick=PICK)
    def decline(self, who: int, pick: int) -> None:
        record = self.pick(pick)
        if record is not None:
            self.do(who, lambda c: c.abort(record.checkpoint_id, FailureReason.CHECKPOINT_DECLINED, "declined"))

    @rule(who=WHO, pick=PICK, seconds=st.sampled_from([1, 300, 700]))
    def time_passes_and_somebody_looks(self, who: int, pick: int, seconds: int) -> None:
        self.clock.advance(seconds)
        record = self.pick(pick)
        if record is not None:
            self.do(who, lambda c: c.acknowledge(record.checkpoint_id), *ENDED)

    @rule(who=WHO, pick=PICK, verdict=VERDICTS)
    def validate(self, who: int, pick: int, verdict: Any) -> None:
        record = self.pick(pick)
        if record is not None:
            self.do(who, lambda c: c.validate(record.checkpoint_id, Judge(verdict)), *NOT_READY)

    @rule(who=WHO, pick=PICK, approved=st.booleans())
    def decide(self, who: int, pick: int, approved: bool) -> None:
        """A person decides, about a checkpoint that may not be held any more, or never was."""
        record = self.pick(pick)
        if record is None:
            return
        id_, was_held = record.checkpoint_id, record.phase is Phase.HELD and record.status is Status.IN_PROGRESS
        step = lambda c: (approve if approved else reject)(c, id_, "ada", "so it is")  # noqa: E731
        done, after = self.do(who, step, NotHeldError)
        if done:
            assert was_held or record.decision is not None
            assert (after.phase is Phase.VALIDATED) == approved
            assert self.do(who, step, NotHeldError) in ((True, after), (False, None))

    @rule(who=WHO, pick=PICK)
    def finalize(self, who: int, pick: int) -> None:
        record = self.pick(pick)
        if record is not None:
            self.do(who, lambda c: c.finalize(record.checkpoint_id), *NOT_READY)

    @rule(who=WHO, pick=PICK)
    def notify(self, who: int, pick: int) -> None:
        record = self.pick(pick)
        if record is not None:
            self.do(who, lambda c: c.notify(record.checkpoint_id), *NOT_READY, StopIncompleteError)

    @rule(who=WHO, request=st.integers(0, 6), zombie=st.booleans(), overtaken=st.booleans(), verdict=VERDICTS)
    def a_whole_run(self, who: int, request: int, zombie: bool, overtaken: bool, verdict: Any) -> None:
        """All steps in order, so that histories get long enough for retention to matter. Perhaps by a second attempt,
        the first one's reports coming in before its own; perhaps completed by the other one while its region
        compacts."""
        done, outcome = self.do(who, lambda c: c.trigger(f"r{request}"), *STOPS)
        if not done or isinstance(outcome, Dropped):
            return
        if zombie:
            self.begin_attempts(who, 0, 1)
        rest = lambda by: self.finish(by, outcome.checkpoint_id, verdict)  # noqa: E731
        self.snapshot(who, outcome.checkpoint_id, WorkingRegion(self, who, rest if overtaken else None, zombie))
        rest(who)

    def finish(self, who: int, checkpoint_id: int, verdict: Any) -> None:
        self.do(who, lambda c: c.validate(checkpoint_id, Judge(verdict)), *NOT_READY)
        self.do(who, lambda c: c.finalize(checkpoint_id), *NOT_READY)
        self.do(who, lambda c: c.notify(checkpoint_id), *NOT_READY, StopIncompleteError)

    @rule(who=WHO, after=st.integers(0, 4), how=st.sampled_from(DEATHS))
    def die_soon(self, who: int, after: int, how: str) -> None:
        self.mortals[who].plan = (after, how)

    # -- means

    def do(self, who: int, step: Any, *allowed: type[CheckpointError]) -> tuple[bool, Any]:
        """Run a step that may die; a dead process starts again with nothing in memory, which a coordinator has not.
        Any other error than a death and those allowed is a defect."""
        with contextlib.suppress(Crash, UnknownOutcomeError, *allowed):
            return True, step(self.coordinators[who])
        return False, None

    def take(self, task: SnapshotTask, subtask: SubtaskId) -> Acknowledgement:
        """What a region would report: the restored runs and a new file of its own."""
        restored = task.restored.get(subtask, Snapshot())
        attempt = task.attempts[subtask]
        steps = 1 if restored.position is None else restored.position["steps"] + 1
        unique = f"{subtask.operator_id}/{subtask.subtask_index}-{attempt}-{next(self.files)}"
        carried = tuple(handle for handle in restored.handles if handle.kind is HandleKind.RUN)
        if subtask.operator_id == "src":
            return Acknowledgement(subtask, attempt, Snapshot((), {"steps": steps}))
        if subtask.operator_id == "out-sink":
            path = f"_staging/chk-{task.checkpoint_id}/{unique}"
            self.sink.staged[path] = task.checkpoint_id
            handle = StateHandle(path, HandleKind.STAGED, 1, 1, "0" * 64, task.checkpoint_id)
            return Acknowledgement(subtask, attempt, Snapshot((handle,), {"steps": steps}))
        path = f"{self.name}/chk-{task.checkpoint_id}/{unique}"
        self.storage.write(path, b"rows")
        handle = StateHandle(path, HandleKind.RUN, 1, 1, "0" * 64, task.checkpoint_id)
        # Only the newest few runs, so that old files become garbage while newer checkpoints are retained.
        return Acknowledgement(subtask, attempt, Snapshot((*carried, handle)[-3:], {"steps": steps}))

    def check_recorded_before_asked(self, task: SnapshotTask) -> None:
        record = self.store.checkpoint(self.name, task.checkpoint_id)
        assert record is not None
        assert record.status is Status.IN_PROGRESS
        known = self.store.subtasks(self.name, task.checkpoint_id)
        assert {key: known[key].attempt for key in task.attempts} == dict(task.attempts)
        completed = [record for record in self.history() if record.status is Status.COMPLETED]
        latest = self.store.subtasks(self.name, completed[0].checkpoint_id) if completed else {}
        with self.store.transaction(self.name) as tx:
            compactions = tx.compactions()
        assert dict(task.restored) == apply_compactions(
            {key: subtask.snapshot for key, subtask in latest.items()}, compactions
        )

    def check_notified_after_commit(self, checkpoint_id: int) -> None:
        record = self.store.checkpoint(self.name, checkpoint_id)
        assert record is not None
        assert record.status in COMMITTED

    def check_results(self, task: SnapshotTask, acks: list[Acknowledgement], results: Any) -> None:
        newest = {
            subtask: max(t.attempts.get(subtask, 0) for t in self.tasks if t.checkpoint_id == task.checkpoint_id)
            for subtask in task.attempts
        }
        known = self.store.subtasks(self.name, task.checkpoint_id)
        for ack in acks:
            if results[ack.subtask] in {AcknowledgeResult.SUCCESS, AcknowledgeResult.DUPLICATE}:
                assert known[ack.subtask].attempt == ack.attempt
            if ack.attempt < newest[ack.subtask] and known[ack.subtask].attempt != ack.attempt:
                assert results[ack.subtask] in {AcknowledgeResult.UNKNOWN, AcknowledgeResult.DISCARDED}
            if results[ack.subtask] is AcknowledgeResult.SUCCESS:
                assert known[ack.subtask].snapshot == ack.snapshot

    def pick(self, pick: int) -> CheckpointRecord | None:
        """Mostly the newest checkpoint, now and then an older one."""
        history = self.history()
        return history[pick % len(history) if pick > 7 else 0] if history else None
