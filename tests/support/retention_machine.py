"""Any history of checkpoints, savepoints, disposals, restores, undos, aborts, cleanings and time that passes.

The machine keeps a model of its own: who follows whom, what each point needs, and which points must be there. It reads
none of the rules that it judges. Every point that must be there can be restored, whole; after a cleaning nothing else
is on the storage, in staging, or put away by the sink.
"""

import contextlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from memory_store import MemoryCheckpointStore
from pasts import Past
from user_actions import dispose
from worlds import DEATHS, Crash, Judge, MortalStore

from tidegate.coordination.recovery.restore import ToCheckpoint, Undo
from tidegate.protocol.facts.errors import (
    CheckpointNotRetainedError,
    NothingToUndoError,
    SavepointInUseError,
    UnknownOutcomeError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.paths import marker_path, metadata_path
from tidegate.protocol.facts.reasons import FailureReason

PICK = st.integers(0, 20)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
AGE, UNDO = 2 * DAY, DAY


@dataclass
class Point:
    """A completed checkpoint, as the model remembers it. `left_at` is when a restore left it behind."""

    id: int
    savepoint: bool
    follows: "Point | None"
    completed_at: datetime
    files: frozenset[str]
    left_at: datetime | None = None

    def line(self) -> "list[Point]":
        """It and all that it follows, newest first."""
        return [self, *(self.follows.line() if self.follows else [])]


class RetentionMachine(RuleBasedStateMachine):
    @initialize(retained=st.integers(1, 3), by_age=st.booleans(), carried=st.integers(0, 2))
    def begin(self, retained: int, by_age: bool, carried: int) -> None:
        self.retained, self.age = retained, AGE if by_age else timedelta(0)
        self.store = MemoryCheckpointStore()
        self.world = Past(self.store, retained=retained, retained_for=self.age, undo_within=UNDO, timeout="400 d")
        self.world.carried = carried
        self.there: dict[int, Point] = {}
        self.latest: Point | None = None
        self.going: int | None = None
        self.asked = 0

    # -- what happens

    def ask(self, savepoint: bool) -> int:
        self.asked += 1
        return self.world.ask(f"r{self.asked}", savepoint=savepoint).checkpoint_id

    @precondition(lambda self: self.going is None)
    @rule(savepoints=st.lists(st.sampled_from([False, False, True]), min_size=1, max_size=4))
    def take(self, savepoints: list[bool]) -> None:
        for savepoint in savepoints:
            self.asked += 1
            self.complete(self.world.take(f"r{self.asked}", savepoint), savepoint)

    def complete(self, checkpoint_id: int, savepoint: bool) -> None:
        handles = self.store.subtasks("p", checkpoint_id).values()
        files = frozenset(h.path for known in handles for h in known.snapshot.handles if h.kind == "RUN")
        self.latest = Point(checkpoint_id, savepoint, self.latest, self.world.clock.now(), files)
        self.there[checkpoint_id] = self.latest
        self.let_go()

    @precondition(lambda self: self.going is None)
    @rule()
    def begin_one(self) -> None:
        self.going = self.ask(savepoint=False)
        self.world.snapshot(self.going)
        self.world.storage.files[self.being_written] = b"not yet"

    @property
    def being_written(self) -> str:
        """By the checkpoint in progress: nobody has reported it."""
        return f"p/chk-{self.going}/op/0-1-being-written.parquet"

    @precondition(lambda self: self.going is not None)
    @rule(completes=st.booleans())
    def end_one(self, completes: bool) -> None:
        going, self.going = self.going, None
        assert going is not None
        if not completes:
            self.world.coordinator.abort(going, FailureReason.TASK_FAILURE, "enough")
            self.let_go()
            return
        self.world.coordinator.validate(going, Judge(True))
        self.world.coordinator.finalize(going)
        self.world.coordinator.notify(going)
        self.complete(going, False)

    @precondition(lambda self: self.there)
    @rule(pick=PICK)
    def restore(self, pick: int) -> None:
        self.go_back(ToCheckpoint(self.pick(pick).id))

    @precondition(lambda self: self.latest is not None)
    @rule()
    def undo(self) -> None:
        with contextlib.suppress(NothingToUndoError, CheckpointNotRetainedError):
            self.go_back(Undo())

    def go_back(self, target: Any) -> None:
        plan = self.world.coordinator.restore(target)
        self.latest, self.going = self.there[plan.checkpoint.checkpoint_id], None
        line = {point.id for point in self.latest.line()}
        for point in self.there.values():
            point.left_at = None if point.id in line else point.left_at or self.world.clock.now()
        self.let_go()

    @precondition(lambda self: any(point.savepoint for point in self.there.values()))
    @rule(pick=PICK)
    def dispose(self, pick: int) -> None:
        mine = [point for point in self.there.values() if point.savepoint]
        with contextlib.suppress(SavepointInUseError):
            disposed = dispose(self.world.coordinator, str(mine[pick % len(mine)].id)).checkpoint_id
            assert disposed != self.latest.id
            del self.there[disposed]
            self.let_go()

    @rule(hours=st.sampled_from([1, 20, 30, 50]), and_somebody_cleans=st.booleans())
    def time_passes(self, hours: int, and_somebody_cleans: bool) -> None:
        self.world.clock.advance(hours * 3600 + 1)
        if and_somebody_cleans:
            self.clean_up()

    @rule(pick=PICK, staged=st.booleans())
    def somebody_writes_who_was_thought_dead(self, pick: int, staged: bool) -> None:
        """Below any checkpoint that there ever was."""
        if (newest := self.store.history("p", 1)) and (id_ := 1 + pick % newest[0].checkpoint_id) != self.going:
            if staged:
                self.world.sink.staged[f"_staging/chk-{id_}/0-9-zombie.parquet"] = id_
            else:
                self.world.storage.files[f"p/chk-{id_}/op/0-9-zombie.parquet"] = b"zombie"

    @rule(after=st.none() | st.integers(0, 12), how=st.sampled_from(DEATHS))
    def clean(self, after: int | None, how: str) -> None:
        """Perhaps one that dies comes first."""
        if after is not None:
            mortal = MortalStore(self.store)
            self.world.reopen(mortal)
            mortal.plan = (after, how)
            with contextlib.suppress(Crash, UnknownOutcomeError):
                self.world.coordinator.cleaning.clean()
            self.world.reopen(self.store)
            self.world.clock.advance(60)  # a process that held a lease is dead
        self.clean_up()

    def clean_up(self) -> None:
        planned = self.world.coordinator.cleaning.plan()
        report = self.world.coordinator.cleaning.clean()
        assert report.damage == ()
        assert [kept.record.checkpoint_id for kept in report.kept] == [
            kept.record.checkpoint_id for kept in planned.kept
        ]
        self.let_go()
        assert sorted(kept.record.checkpoint_id for kept in report.kept) == sorted(self.there)
        self.check_nothing_else_is_there()
        for id_ in self.there:
            assert self.world.coordinator.plan_restore(ToCheckpoint(id_)).checkpoint.checkpoint_id == id_

    # -- what must be so

    def pick(self, number: int) -> Point:
        return sorted(self.there.values(), key=lambda point: point.id)[number % len(self.there)]

    def let_go(self) -> None:
        """What is too old goes: somebody has just looked."""
        if self.latest is None:
            return
        now = self.world.clock.now()
        present = [point for point in self.latest.line() if point.id in self.there]
        newest = [point for point in present if not point.savepoint][: self.retained]
        for point in list(self.there.values()):
            stays = point.savepoint or point is self.latest or point in newest
            if point in present:
                stays = stays or now - point.completed_at < self.age
            else:
                assert point.left_at is not None
                stays = stays or now - point.left_at <= UNDO
            if not stays:
                del self.there[point.id]

    @invariant()
    def every_point_that_must_be_there_is_whole(self) -> None:
        if not hasattr(self, "there"):
            return
        retained, abandoned = self.world.ids()
        assert sorted([*retained, *abandoned]) == sorted(self.there)
        for point in self.there.values():
            assert point.files <= self.world.storage.files.keys()
            for path in point.files:
                assert self.world.storage.files[path] == f"r{int(path.split('/')[1].removeprefix('chk-')):02}".encode()
            assert {metadata_path("p", point.id), marker_path("p", point.id)} <= self.world.storage.files.keys()
            shown = self.world.sink.visible.keys() | self.world.sink.put_away.keys()
            assert {each.id for each in point.line()} <= shown

    def check_nothing_else_is_there(self) -> None:
        going = self.store.subtasks("p", self.going) if self.going is not None else {}
        written = {handle.path for known in going.values() for handle in known.snapshot.handles}
        if self.going is not None:
            written.add(self.being_written)
            assert self.being_written in self.world.storage.files
        needed = {path for point in self.there.values() for path in point.files}
        needed |= {of("p", id_) for id_ in self.there for of in (metadata_path, marker_path)}
        assert self.world.storage.files.keys() - written == needed - written
        assert self.world.sink.staged.keys() <= written
        present = {point.id for point in self.latest.line()} if self.latest else set()
        assert not [each for each in self.store.history("p", 999) if each.status is Status.SUBSUMED]
        wanted = {each.id for point in self.there.values() for each in point.line()}
        assert set(self.world.sink.withdrawn()) == wanted - present
