"""Tables of files of a simulated continuous run: see `file_tables`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from simulator.file_tables import FileTable, back, forward, stage, without
from simulator.running_in_the_commit import CommittedTable, Statements
from simulator.scheduler import require
from tidegate.iceberg.changes import Change
from tidegate.iceberg.names import WITHDRAWN
from tidegate.ports import CommitAttempt, SinkInput
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import StateHandle

if TYPE_CHECKING:
    from simulator.running import Running

TABLE = "table"


class FilesTable(CommittedTable):
    """`ports.CommittingSink`, `ports.ReferencingSink` and `ports.JournalingSink`."""

    def __init__(self, world: "Running", name: str, input: SinkInput) -> None:
        super().__init__(world, name, input)
        self._replaced = input is SinkInput.CURRENT
        self._readable_for = timedelta(seconds=Random(f"files {world.seed} {name}").choice([0, 0, 60]))

    # -- what is there

    def table(self, tables: Any = None) -> FileTable:
        """As it is committed, or in a transaction."""
        found = (self._world.store.tables.rows if tables is None else tables).get(self._name, {})
        table: FileTable = found.get(TABLE, FileTable())
        return table

    def read(self) -> None:
        table, has = self.table(), self._world.store.tables.rows.get(f"{self._name} has", {})
        self.visible, self.told = self._by_checkpoint(table.files), {id_ for id_, rows in has.items() if rows}
        if self._replaced and self.visible:
            self.visible = {has[0]: [rows for files in self.visible.values() for rows in files]}
        withdrawn = {path for paths in table.tagged(WITHDRAWN).values() for path in paths}
        self.away = self._by_checkpoint(sorted(withdrawn.difference(table.files)))

    def _by_checkpoint(self, paths: Sequence[str]) -> dict[int, list[list[Any]]]:
        found: dict[int, list[list[Any]]] = {}
        for path in paths:
            require(path in self.staged, f"{path} is gone, which {self._name} has taken over")
            found.setdefault(int(path.partition("/")[0].removeprefix("chk-")), []).append(self.staged[path])
        return found

    def check_kept(self, staged: Mapping[int, Mapping[str, list[Any]]]) -> None:
        """Whatever checkpoint a restore can go back to, the table can. `staged`: what each staged, by sink."""
        table, state = self.table(), self._world.store.state
        self._by_checkpoint(sorted(table.reach))
        for id_, record in state.checkpoints.items():
            if record.status is not Status.COMPLETED or table.is_older(id_):
                continue
            files = table.kept_files(id_)
            require(files is not None, f"{self._name} has no snapshot of checkpoint {id_}, which is kept")
            branch = [id_] if self._replaced else sorted(self._world.checks.branches[id_])
            expected = sorted(repr(rows) for each in branch for rows in staged[each][self._name])
            found = sorted(repr(self.staged[path]) for path in files or ())
            require(found == expected, f"{self._name} keeps {found} of checkpoint {id_} instead of {expected}")

    # -- in the commit

    def prepare(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Statements:
        self._fails(f"prepares {self._name}")
        self._rows(staged)
        change = forward(checkpoint_id, staged, self.table().kept, self._replaced)
        return Statements(self, self._swapping(change, checkpoint_id, bool(staged)))

    def prepare_rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle]) -> Statements:
        self._rows(staged if self._replaced else ())
        return Statements(self, self._swapping(back(checkpoint_id, branch, staged, self._replaced), checkpoint_id))

    def _swapping(self, change: Change, id_: int, rows: bool | None = None) -> Callable[[dict[str, Any]], None]:
        """If somebody else has changed the table since, the change is staged again."""
        base = self.table().pointer
        prepared = stage(change, base)

        def swap(tables: dict[str, Any]) -> None:
            table = self.table(tables)
            pointer = prepared if table.pointer is base else stage(change, table.pointer)
            tables.setdefault(self._name, {})[TABLE] = table.swapped(pointer)
            tables.setdefault(f"{self._name} has", {}).update({0: id_} if rows is None else {0: id_, id_: rows})

        return swap

    # -- what goes

    def referenced(self, paths: Sequence[str]) -> Collection[str]:
        return self.table().taken_over.intersection(paths)

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        found = super().staged_paths(checkpoint_id)
        taken = self.referenced(found)
        return [path for path in found if path not in taken]

    def discard(self, paths: Sequence[str]) -> None:
        taken = sorted(self.referenced(paths))
        require(not taken, f"{taken} are deleted, which are what {self._name} shows")
        super().discard(paths)

    def delete_withdrawn(self, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None:
        self._fails("deletes withdrawn rows")
        shows = self._world.store.tables.rows[f"{self._name} has"][0]
        change = without(checkpoint_ids, self._replaced)
        with self._world.store.tables.changed_by([Statements(self, self._swapping(change, shows))]):
            attempt.confirm()
        self._delete_released(None)

    def forget(self, kept: Collection[int]) -> None:
        self._delete_released(kept)

    def _delete_released(self, kept: Collection[int] | None) -> None:
        self._record(lambda table: table.found(kept, self._world.clock.now()))
        gone = self.table().due(self._world.clock.now() - self._readable_for)
        for path in gone:
            self._fails(f"deletes {path}")
            require(path not in self.table().reach, f"{path} is deleted, which {self._name} refers to")
            self.staged.pop(path, None)

        if gone:
            self._record(lambda table: table.without(gone))
        self.read()

    def _record(self, change: Callable[[FileTable], FileTable]) -> None:
        def record(tables: dict[str, Any]) -> None:
            tables.setdefault(self._name, {})[TABLE] = change(self.table(tables))

        with self._world.store.tables.changed_by([Statements(self, record)]):
            pass
