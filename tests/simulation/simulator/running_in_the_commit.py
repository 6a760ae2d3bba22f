"""Tables of a simulated continuous run that change in the transaction of a checkpoint or a restore. After every commit
they are where the pipeline is, also before anybody was notified.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from simulator import running_topics
from simulator.running_tables import Table
from simulator.scheduler import require
from tidegate.ports import CommitAttempt, CommitStatements, SinkCommit, SinkInput, StatementError
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import SinkError
from tidegate.protocol.facts.records import HandleKind, Snapshot, StateHandle, SubtaskId
from tidegate.protocol.steps.sink_marks import is_whole

if TYPE_CHECKING:
    from simulator.running import Running


def make_table(world: "Running", name: str, input: SinkInput) -> Table:
    """Of a stream of its own, so that the rest stays as it was drawn."""
    if input is SinkInput.CHANGES and running_topics.is_drawn(world, name):
        return running_topics.TopicTable(world, name)
    if input is SinkInput.UPSERTS and running_topics.has_tables(world.seed):
        return running_topics.TopicTable(world, name, input)
    drawn = Random(f"in the commit running {world.seed}").random() < 0.15
    own = Random(f"in the commit running {world.seed} {name}")
    if not (drawn and own.random() < 0.6):
        return Table(input, world.effect)
    if input is not SinkInput.UPSERTS and own.random() < 0.5:
        from simulator.running_files import FilesTable

        return FilesTable(world, name, input)
    return CommittedTable(world, name, input)


class CommittedTable(Table):
    """`ports.CommittingSink`. Its rows lie in the database, and so does which checkpoints it has."""

    commits = SinkCommit.IN_THE_COMMIT

    def __init__(self, world: "Running", name: str, input: SinkInput) -> None:
        super().__init__(input, world.effect)
        self._world, self._name = world, name

    def read(self) -> None:
        """What lies in the database now."""
        rows = self._world.store.tables.rows
        self.visible, self.away, told, whole = (dict(rows.get(f"{self._name} {what}", {})) for what in _PARTS)
        self.told, self.whole = set(told), set(whole)

    def check_kept(self, staged: Mapping[int, Mapping[str, list[Any]]]) -> None:
        """Whatever else must hold of it, besides what readers see."""

    def prepare(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> "Statements":
        self._fails(f"prepares {self._name}")
        rows = self._rows(staged)

        def show(tables: dict[str, Any]) -> None:
            visible, _, told, whole = (tables.setdefault(f"{self._name} {what}", {}) for what in _PARTS)
            visible[checkpoint_id] = [*visible.get(checkpoint_id, ()), *rows]
            told[checkpoint_id] = True
            whole.update({checkpoint_id: True} if is_whole(staged) else {})

        return Statements(self, show)

    def prepare_rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle]) -> "Statements":
        rows = self._rows(staged) if self.input is SinkInput.CURRENT else []

        def go_back(tables: dict[str, Any]) -> None:
            visible, away, _, _ = (tables.setdefault(f"{self._name} {what}", {}) for what in _PARTS)
            known = visible | away
            if self.input is SinkInput.CURRENT:
                shown, known = ({checkpoint_id: rows} if staged else {}), {}
            else:
                shown = {id_: known.pop(id_) for id_ in [*known] if id_ in branch}
            tables[f"{self._name} visible"], tables[f"{self._name} away"] = shown, known

        return Statements(self, go_back)

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        require(False, f"{self._name} is to show checkpoint {checkpoint_id} after the commit")

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """Once more, because nobody knows whether it was in the commit."""
        self._fails("rewinds")
        with self._world.store.tables.changed_by([self.prepare_rewind(checkpoint_id, branch, staged)]):
            attempt.confirm()
        self.read()
        self.trouble("has rewound")

    def delete_withdrawn(self, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None:
        self._fails("deletes withdrawn rows")
        away = self._world.store.tables.rows.setdefault(f"{self._name} away", {})
        for id_ in checkpoint_ids:
            away.pop(id_, None)
        self.read()


_PARTS = ("visible", "away", "told", "whole")


@dataclass
class Statements:
    """`ports.Participant`."""

    table: CommittedTable
    change: Callable[[dict[str, Any]], None]

    def run(self, statements: CommitStatements) -> None:
        self.table.trouble("runs its statements")
        statements.execute(self._execute)  # type: ignore[arg-type]
        self.table.trouble("has run its statements")

    def _execute(self, tables: dict[str, Any]) -> int:
        self.change(tables)
        return 1

    def explain(self, error: StatementError) -> SinkError:
        return SinkError(error.message)


class InTheCommit:
    """What must hold of such tables in one run. `staged`: by checkpoint that has completed and table, its files."""

    def __init__(self, world: "Running") -> None:
        self.world = world
        self.staged: dict[int, dict[str, list[Any]]] = {}

    def completes(self, id_: int, snapshots: Mapping[SubtaskId, Snapshot]) -> None:
        self.staged[id_] = {
            vertex.name: [
                vertex.sink.staged[handle.path]  # type: ignore[attr-defined]
                for subtask in sorted(snapshots)
                if subtask.operator_id == vertex.operator_id
                for handle in snapshots[subtask].handles
                if handle.kind is HandleKind.STAGED
            ]
            for vertex in self.world.graph.sinks
        }

    def check(self) -> None:
        """After every commit: they show what the present branch has, and nothing else."""
        present = sorted(self.world.checks.branches[self.world.checks.now])
        for sink in self.world.graph.sinks:
            table = sink.sink
            if isinstance(table, running_topics.TopicTable):
                table.check(self.staged, present)
            if not isinstance(table, CommittedTable):
                continue
            table.read()
            table.check_kept(self.staged)
            expected = {id_: self.staged[id_][sink.name] for id_ in present if self.staged[id_][sink.name]}
            shown = {id_: files for id_, files in table.visible.items() if files}
            if table.input is SinkInput.CURRENT:
                expected, shown = ({0: known[max(known)]} if known else {} for known in (expected, shown))
            wrong = f"{sink.name} shows {shown} where the pipeline is at {present[-1:]}, and should {expected}"
            require(_counted(shown) == _counted(expected), wrong)


def _counted(files: Mapping[int, list[list[Any]]]) -> dict[int, Counter[str]]:
    """By checkpoint, its rows."""
    return {id_: Counter(repr(row) for file in each for row in file) for id_, each in files.items()}
