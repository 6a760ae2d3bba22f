"""What happens to an Iceberg table in its life: old checkpoints go, others change it, attempts are overtaken. Each says
what has to be true afterwards."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from commits import Attempt
from iceberg_tables import Lake, files_below
from marts import Mart, Server, values
from psycopg2.errors import LockNotAvailable
from pyiceberg.table import StaticTable
from worlds import Crash

from tidegate import IcebergSink
from tidegate.iceberg import catalog
from tidegate.iceberg.places import location_now
from tidegate.iceberg.swapping import Swap
from tidegate.ports import StageContext, StateHandle
from tidegate.protocol.facts.errors import SinkError, SupersededAttemptError
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.recovery.ownership import Owner

TABLE = "db.out"
POINTER = "UPDATE tidegate_iceberg.iceberg_tables SET metadata_location = '{}' WHERE metadata_location = '{}'"


@dataclass
class World:
    """A table, readers of it, and pipelines that write it."""

    lake: Lake
    server: Server
    mart: Callable[..., Mart]

    def made(self, mode: str = "append", retained: int = 1, **options: Any) -> Mart:
        return self.mart(out=IcebergSink(TABLE, mode, **{"readable_for": "0 s", **options}), retained=retained)

    def grown(self, mode: str, checkpoints: int, **given: Any) -> Mart:
        of = self.made(mode, **given)
        self.grow(of, checkpoints)
        return of

    def grow(self, of: Mart, checkpoints: int) -> None:
        for _ in range(checkpoints):
            of.take()
            of.coordinator.clean()

    def append(self, *numbers: int) -> None:
        self.lake.table(TABLE).append(pa.table({"v": pa.array(numbers, pa.int64())}))


def files_of(of: Mart) -> set[str]:
    return {path for path in files_below(of.sinks["out"].root) if path.startswith(("data/", "metadata/"))}


def old_checkpoints_go(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.grown("append", 4)
    assert world.lake.values(TABLE) == [1, 2, 3, 4]


def a_snapshot_is_tagged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And another one a branch, by the user."""
    of = world.grown("latest", 2)
    table = world.lake.table(TABLE)
    with table.manage_snapshots() as manage:
        manage.create_tag(table.current_snapshot().snapshot_id, "audit")
    world.grow(of, 4)
    table = world.lake.table(TABLE)
    assert "audit" in table.refs()
    assert table.scan(snapshot_id=table.refs()["audit"].snapshot_id).to_arrow()["v"].to_pylist() == [2]


def restored_to_the_oldest(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    of = world.grown("append", 6, retained=3)
    of.restore(4)
    assert world.lake.values(TABLE) == [1, 2, 3, 4]


def restored_to_a_savepoint(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    of = world.grown("append", 1)
    trigger = of.coordinator.trigger
    of.coordinator.trigger = lambda id_: trigger(id_, kind=CheckpointKind.SAVEPOINT)  # type: ignore[method-assign]
    of.take()
    of.coordinator.trigger = trigger  # type: ignore[method-assign]
    world.grow(of, 4)
    of.restore(2)
    assert world.lake.values(TABLE) == [1, 2]


def restored_and_undone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    of = world.grown("append", 3, retained=3)
    of.restore(1)
    of.restore()
    assert world.lake.values(TABLE) == [1, 2, 3]


def opened_before_it_was_replaced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    of = world.grown("latest", 1, readable_for="1 h")
    location = location_now(of.sinks["out"].name)
    world.grow(of, 6)
    of.coordinator.cleaning.clean()
    assert location is not None
    assert StaticTable.from_metadata(location).scan().to_arrow()["v"].to_pylist() == [1]


def replaced_often(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No cleaning looks for what is left."""
    of = world.made("latest")
    for _ in range(8):
        of.take()
    left = [path for path in files_of(of) if "metadata.json" not in path]
    assert len(left) <= 3 * 3  # two snapshots and what the last one has released: rows, a manifest and a list each


def changed_by_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the checkpoint."""
    of = world.grown("latest", 1)
    world.append(10)
    with pytest.raises(SinkError, match="another writer has committed snapshot"):
        of.take()
    assert world.lake.values(TABLE) == [1, 10]


def appended_meanwhile(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the preparation of a checkpoint and its transaction."""
    of = world.grown("append", 1)
    sink = of.sinks["out"]
    prepare = sink.prepare

    def prepared(*given: Any) -> Any:
        found = prepare(*given)
        world.append(10)
        return found

    object.__setattr__(sink, "prepare", prepared)
    of.take()
    assert world.lake.values(TABLE) == [1, 2, 10]


def aborted_at_its_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction, after all statements have run; then the checkpoint is tried again."""
    of = world.grown("append", 1)
    id_, run = of.validated(), Swap.run

    def dies(self: Swap, statements: Any) -> None:
        run(self, statements)
        monkeypatch.setattr(Swap, "run", run)
        raise Crash

    monkeypatch.setattr(Swap, "run", dies)
    with pytest.raises(Crash):
        of.coordinator.finalize(id_)
    of.coordinator.finalize(id_)
    of.coordinator.notify(id_)
    assert world.lake.values(TABLE) == [1, 2]


def changed_in_the_same_instant(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another program, which has prepared its change and does not wait for long."""
    of = world.grown("append", 1)
    before = location_now(of.sinks["out"].name)
    world.append(10)
    prepared, swap, done = location_now(of.sinks["out"].name), catalog.swap, []
    world.server.do(POINTER.format(before, prepared))

    def after_others(*given: Any) -> bool:
        with suppress(LockNotAvailable):
            world.server.do("SET lock_timeout = 200", POINTER.format(prepared, before))
            done.append(10)
        return swap(*given)

    monkeypatch.setattr(catalog, "swap", after_others)
    of.take()
    assert world.lake.values(TABLE) == [1, 2, *done]


def overtaken_in_a_commit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a catalog elsewhere: an attempt is stopped before it commits, and a newer one commits the same checkpoint."""
    sink = _elsewhere()
    sink.commit(1, _staged(sink, 1), Attempt())
    late, newer, confirm = Attempt(), Attempt(), Attempt.confirm

    def stopped(self: Attempt) -> None:
        if self is late:
            monkeypatch.setattr(Attempt, "confirm", confirm)
            sink.commit(2, _staged(sink, 2), newer)

    monkeypatch.setattr(Attempt, "confirm", stopped)
    with pytest.raises(SupersededAttemptError):
        sink.commit(2, _staged(sink, 2), late)
    assert _snapshots(sink) == 2


def overtaken_before_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a catalog elsewhere: by an attempt at an earlier checkpoint."""
    sink = _elsewhere()
    late, newer = Attempt(), Attempt()
    sink.commit(1, _staged(sink, 1), newer)
    monkeypatch.setattr(late, "confirm", lambda: None)
    with suppress(SupersededAttemptError):
        sink.commit(2, _staged(sink, 2), late)
    assert _snapshots(sink) == 1


def _elsewhere() -> IcebergSink:
    sink = IcebergSink(TABLE, catalog="other").placed("mart", "out")
    sink.mark(Owner("mart", "out", "here"))
    return sink


def _staged(sink: IcebergSink, id_: int) -> Sequence[StateHandle]:
    return sink.writer().stage(values(id_), StageContext(id_, 0, 1, "u"))


def _snapshots(sink: IcebergSink) -> int:
    location = location_now(sink.name)
    assert location is not None
    return len(list(StaticTable.from_metadata(location).snapshots()))
