"""Tables in a database: such as change in the transaction that completes a checkpoint or restores the pipeline, and
such as follow after it.

Rows are loaded into a table beside it before the transaction, or the table refers to the staged files themselves. What
readers see is compared with a plain execution after every commit: of what is in the commit, whatever has become of the
second phase.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from simulator.scheduler import require
from simulator.sinks import FULL, SimulatedSink
from simulator.sources import Row
from simulator.temper import CALM
from simulator.topic_sinks import TopicSink
from tidegate.ports import (
    CommitAttempt,
    CommitStatements,
    DeliveryGuarantee,
    SinkCommit,
    SinkInput,
    StatementError,
    Withdrawn,
)
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import SinkError, StateIntegrityError, SupersededAttemptError
from tidegate.protocol.facts.records import StateHandle

if TYPE_CHECKING:
    from simulator.world import World

LOST = "the side table is empty since the server has crashed"
#: Of one staged file: its checkpoint, its path, its rows unless the table refers to the file, and whether it is shown.
Part = tuple[int, str, tuple[Row, ...] | None, bool]


def make_sink(world: "World", name: str, input: SinkInput, root: str = "") -> SimulatedSink:
    """Of a stream of its own, so that the rest stays as it was drawn."""
    draws = Random(f"in the commit {world.seed}")
    own = Random(f"in the commit {world.seed} {root or name}")
    if not (draws.random() < 0.1 and own.random() < 0.7):
        return SimulatedSink(world, name, input, root)
    if own.random() < 0.39:
        from simulator.file_sinks import FilesSink

        return FilesSink(world, name, input, root)
    return CommittedSink(world, name, input, root)


class CommittedSink(SimulatedSink):
    """`ports.CommittingSink`, and `ports.ReferencingSink` if it takes files over. Of several `kinds` one is drawn for
    each process: their code differs."""

    def __init__(self, world: "World", name: str, input: SinkInput, root: str = "") -> None:
        super().__init__(world, name, input, root)
        self.merges = False
        draws = Random(f"kind {world.seed} {self.root}")
        self.takes_over = input is SinkInput.CHANGES and draws.random() < 0.4
        self.crashes = Random(f"server {world.seed} {self.root}")
        self.crash = draws.choice([0.0, 0.1, 0.2])  # of the server, per load
        self.kinds = [SinkCommit.IN_THE_COMMIT]
        if draws.random() < 0.6:
            either = [SinkCommit.IN_THE_COMMIT, SinkCommit.AFTER_THE_COMMIT]
            self.kinds = draws.choice([[SinkCommit.AFTER_THE_COMMIT], [SinkCommit.AT_LEAST_ONCE], either])
        may_differ = not (world.drawn.saving or world.drawn.changes or world.drawn.forking)  # else that is compared
        again = input is SinkInput.CHANGES and not self.takes_over
        self.kinds = [each for each in self.kinds if each is not SinkCommit.AT_LEAST_ONCE or again]
        self.kinds = self.kinds[: None if may_differ else 1] or [SinkCommit.IN_THE_COMMIT]
        self.side_tables: dict[int, tuple[Part, ...]] = {}  # unlogged tables, by a number

    @property
    def commits(self) -> SinkCommit:  # type: ignore[override]
        process = self.world.scheduler.current
        if process is None or len(self.kinds) == 1:
            return self.kinds[0]
        return Random(f"{self.world.seed} {process.name} {self.world.births[process]}").choice(self.kinds)

    # -- what is there

    @property
    def tables(self) -> Any:
        return self.world.store.database.tables

    def parts(self) -> list[Part]:
        return list(self.tables.rows.get(self.root, {}).values())

    def rows(self) -> list[Row]:
        return sorted(row for part in self.parts() if part[3] for row in self._rows_of(part))

    def _rows_of(self, part: Part) -> tuple[Row, ...]:
        _, path, rows, _ = part
        if rows is not None:
            return rows
        require(path in self.staged, f"{path} is gone, which {self.name} has taken over")
        return self.staged[path]

    def put_away(self) -> dict[int, dict[str, Any]]:
        return {id_: {path: None} for id_, path, _, shown in self.parts() if not shown}

    def referenced(self, paths: Sequence[str]) -> Collection[str]:
        return {path for _, path, rows, _ in self.parts() if rows is None}.intersection(paths)

    def check(self) -> None:
        """Readers see what the present branch has come to: at every moment, unless its latest checkpoint was recorded
        without this table, whose second phase is still to come."""
        state, observer = self.world.store.state, self.world.observer
        latest = observer.history.latest_id(state)
        record = state.checkpoints.get(latest)
        mine = record is not None and f"{self.name}-sink" in record.committed_sinks
        notified = record is not None and record.notified_at is not None
        goes_back = bool(state.restores) and state.restores[-1].rewound_at is None
        without = not (mine or notified) and latest > 0
        is_later = goes_back and self.kinds != [SinkCommit.IN_THE_COMMIT]
        if without or latest == getattr(observer, "forked_as", 0) or is_later:
            return
        shown, expected = self.rows(), observer.history.moments[latest].outputs[self.name]
        require(self.is_right(expected), f"{self.name} shows {shown} at checkpoint {latest} instead of {expected}")

    def is_right(self, expected: Sequence[Row]) -> bool:
        """At least once: none is missing, and none is there that should not be."""
        shown = self.rows()
        if self.kinds != [SinkCommit.AT_LEAST_ONCE]:
            return shown == expected
        return Counter(shown) >= Counter(expected) and set(shown) == set(expected)

    # -- in the commit

    def prepare(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> "Statements":
        if self.world.strikes("sink_error"):
            raise SinkError(FULL)
        loaded = self._load(staged)
        return Statements(self, checkpoint_id, staged, loaded, self._add if staged else None)

    def prepare_rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle]) -> "Statements":
        return self._rewinding(checkpoint_id, branch, staged)

    def _rewinding(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle]) -> "Statements":
        if self.input is SinkInput.CURRENT:
            return Statements(self, checkpoint_id, staged, self._load(staged), self._add)

        def show(table: dict[int, Part], _: Sequence[Part]) -> None:
            for number, (id_, path, rows, _shown) in table.items():
                table[number] = (id_, path, rows, id_ in branch)

        return Statements(self, checkpoint_id, (), 0, show, applies=False)

    def _add(self, table: dict[int, Part], parts: Sequence[Part]) -> None:
        if self.input is SinkInput.CURRENT:
            table.clear()
        first = max(table, default=0) + 1
        table |= dict(enumerate(parts, first))

    def _load(self, staged: Sequence[StateHandle]) -> int:
        """Into a table of its own beside, whose number is returned."""
        number, parts = self.world.unique(), []
        for handle in staged:
            self.world.point(f"loads {handle.path} of {self.name}")
            if not self.is_whole(handle):
                raise StateIntegrityError(f"{handle.path} is not what was staged")
            parts.append((handle.created_by, handle.path, None if self.takes_over else self.staged[handle.path], True))
        self.side_tables[number] = tuple(parts)
        return number

    # -- after it

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        record = self.world.store.state.checkpoints.get(checkpoint_id)
        again = record is not None and f"{self.name}-sink" in record.committed_sinks
        require(not again, f"{self.name} is to show checkpoint {checkpoint_id} again, which it showed in the commit")
        if self.world.strikes("sink_error"):
            raise SinkError(FULL)
        self.world.messages.tells(self, checkpoint_id, staged)
        self._by_itself(self._after(checkpoint_id, staged), attempt)
        self.world.messages.told(self, checkpoint_id)
        self.world.point(f"has committed chk-{checkpoint_id} to {self.name}")

    def _after(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> "Statements":
        """Once, by the checkpoint's id, which the table has from the first time on; unless that is not promised."""
        if not staged or (self.kinds != [SinkCommit.AT_LEAST_ONCE] and self.has(checkpoint_id)):
            return Statements(self, checkpoint_id, (), 0, None)
        once = self.kinds != [SinkCommit.AT_LEAST_ONCE]
        return Statements(self, checkpoint_id, staged, self._load(staged), self._add, by_key=once)

    def has(self, checkpoint_id: int) -> bool:
        return checkpoint_id in self.tables.rows.get(f"{self.root} has", {})

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        if self.world.strikes("sink_error"):
            raise SinkError(FULL)
        self.world.messages.shows(self, checkpoint_id, staged)
        self._by_itself(self._rewinding(checkpoint_id, branch, staged), attempt)
        self.world.point(f"has rewound {self.name} to chk-{checkpoint_id}")

    def _by_itself(self, statements: "Statements", attempt: CommitAttempt) -> None:
        """Whoever changes the table holds it until its transaction ends. Only then does the attempt ask whether it is
        the newest: a restore that came first has ended it."""
        self.world.point(f"changes {self.name} as attempt {attempt.number}")
        with self.tables.changed_by([_Fence(self, attempt), statements]):
            pass
        with self.world.scheduler.final():
            self.check()

    def shown_outside(self, branch: Branch) -> list[Withdrawn]:
        outside = {id_ for id_, _, _, shown in self.parts() if shown and id_ not in branch}
        return [Withdrawn(id_, 1, 1) for id_ in sorted(outside)] if self.input is SinkInput.CHANGES else []

    def withdrawn(self) -> list[int]:
        return sorted(self.put_away())

    def delete_withdrawn(self, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None:
        def delete(table: dict[int, Part], _: Sequence[Part]) -> None:
            for number, (id_, _path, _rows, shown) in [*table.items()]:
                if id_ in checkpoint_ids and not shown:
                    del table[number]

        attempt.confirm()
        if self.takes_over:  # nobody can go back to them any more: first the files, so that a crash leaves none
            self._delete([path for id_, path, _, shown in self.parts() if id_ in checkpoint_ids and not shown])
        self._by_itself(Statements(self, 0, (), 0, delete), attempt)

    def numbers(self) -> tuple[int, int]:
        known = self.tables.rows.get(f"{self.root} has", {})
        ids = [*self.staged_checkpoints(), *(id_ for id_, *_ in self.parts()), *(id_ for id_ in known if id_)]
        return max(ids, default=0), known.get(0, 0)

    def is_used(self) -> bool:
        return super().is_used() or bool(self.parts())

    def discard(self, paths: Sequence[str]) -> None:
        taken = sorted(self.referenced(paths))
        require(not taken, f"{taken} are deleted, which are what {self.name} shows")
        super().discard(paths)


def accepted(sink: SimulatedSink) -> str | None:
    """The weakest guarantee that the definition is to accept."""
    weak = isinstance(sink, CommittedSink) and sink.kinds == [SinkCommit.AT_LEAST_ONCE]
    return DeliveryGuarantee.AT_LEAST_ONCE if weak else None


Change = Callable[[dict[int, Part], Sequence[Part]], None]


@dataclass
class Statements:
    """`ports.Participant`. Rows that were loaded are counted in the transaction. Some take minutes, and others have
    their turn before the pipeline's row is locked. `by_key`: not if the table has the checkpoint. `applies`: it
    has it afterwards; a restore shows a checkpoint without that."""

    sink: CommittedSink
    checkpoint_id: int
    staged: Sequence[StateHandle]
    loaded: int
    change: Change | None
    by_key: bool = False
    applies: bool = True

    def run(self, statements: CommitStatements) -> None:
        statements.execute(self._execute)  # type: ignore[arg-type]
        if self.sink.crashes.random() < 0.2 and self.sink.world.temper != CALM:
            self.sink.world.clock.sleep(self.sink.crashes.choice([20, 200, 700]))
        self.sink.world.point(f"has run the statements of {self.sink.name}")

    def _execute(self, tables: dict[str, Any]) -> int:
        has, shows = (tables.setdefault(f"{self.sink.root} {what}", {}) for what in ("has", "shows"))
        table: dict[int, Part] = tables.setdefault(self.sink.root, {})
        if self.change is None or (self.by_key and self.checkpoint_id in has):
            shows |= {} if self.checkpoint_id in has else {0: self.checkpoint_id}
            has[self.checkpoint_id] = True
            return 0
        if self.sink.crashes.random() < self.sink.crash and self.sink.world.temper != CALM:
            self.sink.world.tell("the server crashes, and tables without a log are empty")
            self.sink.side_tables.clear()
        parts = self.sink.side_tables.get(self.loaded, ())
        self._count(parts)
        self.change(table, parts)
        if self.checkpoint_id:
            shows[0] = self.checkpoint_id
        if self.checkpoint_id and self.applies:
            has[self.checkpoint_id] = True
        return len(parts)

    def _count(self, parts: Sequence[Part]) -> None:
        """An empty table beside means rows that are lost, and not that there were none."""
        if len(parts) != len(self.staged):
            raise SinkError(LOST)

    def explain(self, error: StatementError) -> SinkError:
        return SinkError(error.message)


class _Fence:
    """`ports.Participant`, before the others of a transaction of the sink's own."""

    def __init__(self, sink: CommittedSink, attempt: CommitAttempt) -> None:
        self._sink, self._attempt = sink, attempt

    def run(self, statements: CommitStatements) -> None:
        self._attempt.confirm()
        statements.execute(self._execute)  # type: ignore[arg-type]

    def _execute(self, tables: dict[str, Any]) -> int:
        has: dict[int, Any] = tables.setdefault(f"{self._sink.root} has", {})
        if has.get(0, 0) > self._attempt.number:
            raise SupersededAttemptError(f"attempt {self._attempt.number} was overtaken")
        has[0] = self._attempt.number
        return 1

    def explain(self, error: StatementError) -> SinkError:
        return SinkError(error.message)


def check_tables(sinks: Mapping[str, SimulatedSink]) -> None:
    """After every commit."""
    for sink in sinks.values():
        if isinstance(sink, CommittedSink | TopicSink):
            sink.check()
