"""Tables of files of a simulated scheduled run: a pointer that the transaction swaps, with the files where they were
staged. After every commit each checkpoint that a restore can go back to has its files, and whoever has opened the table
goes on reading for a while.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from simulator.file_tables import FileTable, Metadata, back, forward, stage, without
from simulator.in_the_commit import CommittedSink
from simulator.live_files import require_unneeded
from simulator.scheduler import require
from simulator.sinks import FULL, SimulatedSink
from simulator.sources import Row
from simulator.temper import CALM
from tidegate.iceberg.changes import Change
from tidegate.iceberg.names import WITHDRAWN
from tidegate.ports import CommitAttempt, CommitStatements, SinkCommit, SinkInput, StatementError, Withdrawn
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import SinkError, StateIntegrityError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import StateHandle

if TYPE_CHECKING:
    from simulator.world import World

TABLE = "table"


class FilesSink(CommittedSink):
    """`ports.CommittingSink`, `ports.ReferencingSink` and `ports.JournalingSink`."""

    def __init__(self, world: "World", name: str, input: SinkInput, root: str = "") -> None:
        super().__init__(world, name, input, root)
        self.takes_over = True
        self.kinds = [each for each in self.kinds if each is not SinkCommit.AT_LEAST_ONCE] or [SinkCommit.IN_THE_COMMIT]
        self.replaced = input is SinkInput.CURRENT
        self.readable_for = timedelta(seconds=Random(f"files {world.seed} {self.root}").choice([0, 0, 90]))
        self._known, self._left = FileTable(), dict[str, Any]()

    # -- what is there

    def table(self, tables: Any = None) -> FileTable:
        """As it is committed, or in a transaction."""
        found: FileTable = (self.tables.rows if tables is None else tables).get(self.root, {}).get(TABLE, FileTable())
        return found

    def rows(self) -> list[Row]:
        return sorted(row for path in self.table().files for row in self._rows_in(path))

    def _rows_in(self, path: str) -> tuple[Row, ...]:
        require(path in self.staged, f"{path} is gone, which {self.name} has taken over")
        return self.staged[path]

    def parts(self) -> list[Any]:
        return [(id_, "", None, True) for id_ in self.table().tagged()]

    def put_away(self) -> dict[int, dict[str, Any]]:
        return {id_: dict.fromkeys(paths) for id_, paths in self.table().tagged(WITHDRAWN).items()}

    def referenced(self, paths: Sequence[str]) -> Collection[str]:
        return self.table().taken_over.intersection(paths)

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        found = super().staged_paths(checkpoint_id)
        taken = self.referenced(found)
        return [path for path in found if path not in taken]

    def check(self) -> None:
        super().check()
        table = self.table()
        if table is not self._known:
            self._left |= dict.fromkeys(self._known.reach - table.reach, self.world.clock.time)
            self._known = table
        for path in table.reach:
            self._rows_in(path)
        lately = [path for path, at in self._left.items() if self.world.clock.time - at < self.readable_for]
        gone = [path for path in lately if path not in self.staged]
        require(not gone, f"{gone} of {self.name} are gone, which readers may have open")
        self._check_kept(table)

    def _check_kept(self, table: Any) -> None:
        """Whatever checkpoint a restore can go back to, the table can."""
        history = self.world.observer.history
        for id_, record in self.world.store.state.checkpoints.items():
            mine = f"{self.name}-sink" in record.committed_sinks or record.notified_at is not None
            if record.status is not Status.COMPLETED or not mine or history.is_imported(id_) or table.is_older(id_):
                continue
            files = table.kept_files(id_)
            require(files is not None, f"{self.name} has no snapshot of checkpoint {id_}, which is kept")
            rows, expected = sorted(r for path in files for r in self._rows_in(path)), history.moments[id_].outputs
            require(rows == expected[self.name], f"{self.name} keeps {rows} of checkpoint {id_}")

    # -- in the commit, and after it

    def prepare(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Any:
        if self.world.strikes("sink_error"):
            raise SinkError(FULL)
        return self._prepared(checkpoint_id, staged)

    def _prepared(self, checkpoint_id: int, staged: Sequence[StateHandle], by_key: bool = False) -> "Swap":
        self._read(staged)
        return self._swap(forward(checkpoint_id, staged, self.table().kept, self.replaced), checkpoint_id, by_key)

    def _rewinding(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle]) -> Any:
        self._read(staged if self.replaced else ())
        return self._swap(back(checkpoint_id, branch, staged, self.replaced), checkpoint_id)

    def _after(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Any:
        return self._prepared(checkpoint_id, staged, by_key=True)

    def _read(self, staged: Sequence[StateHandle]) -> None:
        """The footers of files."""
        for handle in staged:
            self.world.point(f"reads {handle.path} of {self.name}")
            if not self.is_whole(handle):
                raise StateIntegrityError(f"{handle.path} is not what was staged")

    def _swap(self, change: Change, checkpoint_id: int, by_key: bool = False) -> "Swap":
        base = self.table().pointer
        self.world.point(f"writes metadata of {self.name}")
        return Swap(self, change, base, stage(change, base), checkpoint_id, by_key)

    # -- what goes

    def shown_outside(self, branch: Branch) -> list[Withdrawn]:
        return [] if self.replaced else self.table().outside(branch)

    def delete_withdrawn(self, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None:
        attempt.confirm()
        self._by_itself(self._swap(without(checkpoint_ids, self.replaced), 0), attempt)
        self._delete_released(None)

    def forget(self, kept: Collection[int]) -> None:
        self._delete_released(kept)

    def _delete_released(self, kept: Collection[int] | None) -> None:
        self.world.point(f"looks for files that {self.name} has released")
        self._record(lambda table: table.found(kept, self.world.clock.time))
        gone = self.table().due(self.world.clock.time - self.readable_for)
        for path in gone:
            self.world.point(f"deletes {path} of {self.name}")
            require(path not in self.table().reach, f"{path} is deleted, which {self.name} refers to")
            require_unneeded(self.world, f"sink:{self.name}-sink", path)
            self._delete([path])
        if gone:
            self._record(lambda table: table.without(gone))

    def _record(self, change: Callable[[FileTable], FileTable]) -> None:
        with self.tables.changed_by([_Recording(self, change)]):
            pass


def can_go_back(sinks: Mapping[str, SimulatedSink], savepoint: int) -> bool:
    """Whether tables of files have the snapshot that a savepoint's directory leads back to: one of which the pipeline
    knows nothing any more has expired."""
    tables = [sink.table() for sink in sinks.values() if isinstance(sink, FilesSink)]
    return all(table.is_older(savepoint) or table.kept_files(savepoint) is not None for table in tables)


@dataclass
class Swap:
    """`ports.Participant`. If somebody else has changed the table since, the change is staged again."""

    sink: FilesSink
    change: Change
    base: Metadata | None
    staged: Metadata | None
    checkpoint_id: int
    by_key: bool

    def run(self, statements: CommitStatements) -> None:
        statements.execute(self._execute)  # type: ignore[arg-type]
        if self.sink.crashes.random() < 0.2 and self.sink.world.temper != CALM:
            self.sink.world.clock.sleep(self.sink.crashes.choice([20, 200, 700]))
        self.sink.world.point(f"has run the statements of {self.sink.name}")

    def _execute(self, tables: dict[str, Any]) -> int:
        has, shows = (tables.setdefault(f"{self.sink.root} {what}", {}) for what in ("has", "shows"))
        if not (self.by_key and self.checkpoint_id in has):
            table = self.sink.table(tables)
            staged = self.staged if table.pointer is self.base else stage(self.change, table.pointer)
            tables.setdefault(self.sink.root, {})[TABLE] = table.swapped(staged)
            shows |= {0: self.checkpoint_id} if self.checkpoint_id else {}
        has |= {self.checkpoint_id: True} if self.checkpoint_id else {}
        return 1

    def explain(self, error: StatementError) -> SinkError:
        return SinkError(error.message)


@dataclass
class _Recording:
    """See `ports.Participant`. Changes the kept checkpoints or the released files of a table."""

    sink: FilesSink
    change: Callable[[FileTable], FileTable]

    def run(self, statements: CommitStatements) -> None:
        statements.execute(self._execute)  # type: ignore[arg-type]

    def _execute(self, tables: dict[str, Any]) -> int:
        tables.setdefault(self.sink.root, {})[TABLE] = self.change(self.sink.table(tables))
        return 1

    def explain(self, error: StatementError) -> SinkError:
        return SinkError(error.message)
