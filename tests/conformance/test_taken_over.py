"""A table that consists of staged files: what a commit has taken over is not discarded with its checkpoint, nor found
left over. On every store."""

import pytest
from cleanings import settle
from committed_tables import TablePast
from worlds import MemorySink

from tidegate.coordination.recovery.restore import Undo
from tidegate.protocol.facts.reasons import FailureReason


class TakingOver(MemorySink):
    """`ReferencingSink`: a staged file stays where it is, and is the table's once it is committed."""

    def commit(self, checkpoint_id, staged, attempt):
        attempt.confirm()
        self.before_commit(checkpoint_id)
        self.visible[checkpoint_id] = tuple(handle.path for handle in staged)

    def referenced(self, paths):
        taken = {path for each in (*self.visible.values(), *self.put_away.values()) for path in each}
        return taken.intersection(paths)

    def discard(self, paths):
        assert not self.referenced(paths), "rows that readers see are deleted"
        super().discard(paths)

    def delete_withdrawn(self, checkpoint_ids, attempt):
        for checkpoint_id in checkpoint_ids:
            for path in self.put_away.pop(checkpoint_id):
                del self.staged[path]


@pytest.fixture
def world(store):
    """With checkpoints 1 to 4 behind it, of which one is retained."""
    world = TablePast(store, {"out": TakingOver()}, retained=1, undo_within="1 d")
    for number in (1, 2, 3, 4):
        assert world.take(f"r{number}") == number
    return world


def file_of(checkpoint_id):
    return f"_staging/chk-{checkpoint_id}/0-1-out.parquet"


def test_what_a_checkpoint_has_staged_stays_when_it_is_subsumed_and_leaves_the_queue(world):
    world.coordinator.clean()
    assert (world.shown(), sorted(world.sink.staged)) == ([1, 2, 3, 4], [file_of(id_) for id_ in (1, 2, 3, 4)])
    with world.store.transaction("p") as tx:
        assert tx.pending_deletions(99) == []
    settle(world)
    assert world.coordinator.cleaning.clean().garbage == ()
    assert sorted(world.sink.staged) == [file_of(id_) for id_ in (1, 2, 3, 4)]


def test_what_nobody_has_taken_over_goes(world):
    world.ask("fails")
    world.snapshot(5)
    world.coordinator.abort(5, FailureReason.TASK_FAILURE, "enough")
    world.coordinator.clean()
    assert sorted(world.sink.staged) == [file_of(id_) for id_ in (1, 2, 3, 4)]
    settle(world)
    world.sink.staged["_staging/chk-2/0-9-zombie.parquet"] = 2
    report = world.coordinator.cleaning.clean()
    assert [each.path for each in report.garbage] == ["_staging/chk-2/0-9-zombie.parquet"]
    assert sorted(world.sink.staged) == [file_of(id_) for id_ in (1, 2, 3, 4)]


def test_a_report_does_not_count_it_among_what_is_queued(world):
    """Between the commit and the cleaning along with it."""
    world.finalize("r5")
    assert {each.owner for each in world.coordinator.cleaning.plan().garbage} == {"storage"}


def test_what_a_restore_withdraws_is_the_tables_until_it_deletes_it_for_good(world):
    world.take("kept", savepoint=True)
    for number in (6, 7, 8):
        world.take(f"r{number}")
    world.restore(5)
    world.coordinator.clean()
    assert (world.shown(), len(world.sink.staged)) == ([1, 2, 3, 4, 5], 8)
    world.coordinator.restore(Undo())
    assert world.shown() == [1, 2, 3, 4, 5, 6, 7, 8]
    world.restore(5)
    world.clock.advance(24 * 3600 + 1)
    world.coordinator.cleaning.clean()
    assert (world.shown(), sorted(world.sink.staged)) == ([1, 2, 3, 4, 5], [file_of(id_) for id_ in (1, 2, 3, 4, 5)])
