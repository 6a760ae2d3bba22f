"""A verdict carries over while a table has the same files. One that was approved although it failed is given again."""

from dataclasses import replace
from typing import Any

import pytest
from desks import Desk
from memory_store import MemoryCheckpointStore
from user_actions import approve
from worlds import CapturingRegion, Judge

from tidegate.coordination.steps import validate as validation
from tidegate.ports import CheckpointStore, SinkInput
from tidegate.protocol.facts.errors import CheckpointHeldError
from tidegate.protocol.facts.names import operator_of_sink
from tidegate.protocol.facts.records import Acknowledgement, HandleKind, Snapshot, StateHandle, SubtaskId, Verdict
from tidegate.protocol.recovery.metadata import read_metadata
from tidegate.protocol.steps import carried_verdicts
from tidegate.protocol.steps.snapshot import SnapshotTask

OUT = SubtaskId(operator_of_sink("out"), 0)


class Table(Desk):
    """Its sink has current rows: a file stays with it until another one is staged."""

    def __init__(self, store: CheckpointStore) -> None:
        super().__init__(store, hold_for="2 h")
        self.sink.input = SinkInput.CURRENT
        self.requests = 0

    def take(self, staged: str | None, judge: Judge) -> list[Verdict]:
        """A checkpoint that stages a file, or none; until it is validated."""
        self.requests += 1
        id_ = self.ask(f"r{self.requests}").checkpoint_id  # type: ignore[union-attr]

        def report(task: SnapshotTask) -> None:
            handles = task.restored[OUT].handles if OUT in task.restored else ()
            if staged is not None:
                path = f"_staging/chk-{id_}/0-{task.attempts[OUT]}-{staged}"
                handles = (StateHandle(path, HandleKind.STAGED, 1, 1, "0", id_),)
            self.sink.staged |= {handle.path: id_ for handle in handles}
            taken = {key: Snapshot(handles if key == OUT else ()) for key in task.attempts}
            acks = [Acknowledgement(key, attempt, taken[key]) for key, attempt in task.attempts.items()]
            self.coordinator.record_acknowledgements(id_, acks)

        self.coordinator.snapshot(id_, CapturingRegion(report))
        self.coordinator.validate(id_, judge)
        return self.complete_validated(id_)

    def complete_validated(self, id_: int) -> list[Verdict]:
        self.coordinator.finalize(id_)
        self.coordinator.notify(id_)
        return list(self.store.verdicts("p", id_))


def walk(table: Table) -> None:
    (first,) = table.take("a", Judge(True))
    assert (first.success, first.carried_from) == (True, None)
    for _ in range(2):
        (again,) = table.take(None, judge := Judge(False))
        assert (again, judge.asked) == (replace(first, carried_from=1), 0)
    (read,) = read_metadata("p", 3, table.storage.files["p/chk-3/_metadata"]).verdicts
    assert read == again
    with pytest.raises(CheckpointHeldError):
        table.take("b", Judge("held"))
    approve(table.coordinator, 4, "ada")
    (held,) = table.complete_validated(4)
    assert held.success is False
    (given,) = table.take(None, judge := Judge(True))
    assert (given.success, given.carried_from, judge.asked) == (True, None, 1)
    (after,) = table.take(None, Judge(False))
    assert after.carried_from == 5


def test_a_verdict_carries_over_until_the_files_change_and_a_failed_one_never(store: CheckpointStore) -> None:
    walk(Table(store))


MISTAKES: dict[str, list[tuple[Any, str, Any]]] = {
    "the files have changed": [
        (carried_verdicts, "basis_of", lambda real: lambda judged, tasks: real(judged, tasks) and judged.definition)
    ],
    "it failed, and was approved": [
        (validation, "founded", lambda real: lambda targets, tasks, given: [
            replace(each, basis=basis.basis)
            for each, basis in zip(
                given, real(targets, tasks, [replace(one, success=True) for one in given]), strict=True
            )
        ]),
        (validation, "carry_over", lambda real: lambda targets, tasks, before, id_: real(
            targets, tasks, [replace(each, success=True) for each in before], id_
        )),
    ],
    "the checkpoint before was not judged": [
        (validation, "carry_over", lambda real: lambda targets, tasks, before, id_: [
            replace(each, carried_from=id_) for each in real(targets, tasks, before, id_)
        ]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_it_shows_if_a_verdict_carries_over_although(monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    for owner, name, make in MISTAKES[mistake]:
        monkeypatch.setattr(owner, name, make(getattr(owner, name)))
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        walk(Table(MemoryCheckpointStore()))
