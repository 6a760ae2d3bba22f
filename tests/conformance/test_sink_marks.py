"""What a sink of upserts had at a checkpoint counts only where its table is known to have that again."""

from dataclasses import replace

import pytest
from lost_databases import Lost
from pasts import OUT, Past
from worlds import small_pipeline

from tidegate.coordination.context import context_of
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.coordination.steps.lookup import restore_latest
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.protocol.steps.sink_marks import SinkMark

MARK = SinkMark("s", "op", 1, "columns", 5)


class Marking:
    def made(self, checkpoint_id, subtask, attempt):
        made = super().made(checkpoint_id, subtask, attempt)
        return replace(made, position=MARK.position()) if subtask == OUT else made


class MarkedPast(Marking, Past):
    pass


class MarkedLost(Marking, Lost):
    pass


class OneWay:
    """A sink that no restore takes back."""

    def __init__(self, sink):
        self._sink = sink

    def __getattr__(self, name):
        if name in ("rewind", "shown_beside", "withdrawn", "delete_withdrawn"):
            raise AttributeError(name)
        return getattr(self._sink, name)


def mark(world):
    context = context_of(world.coordinator.graph, world.store, world.storage, world.clock)
    with world.store.transaction("p") as tx:
        return SinkMark.of(restore_latest(tx, context)[1][OUT])


@pytest.mark.parametrize(("goes_back", "then"), [(True, MARK), (False, None)])
def test_a_restore_takes_it_back_together_with_its_table(store, goes_back, then):
    world = MarkedPast(store, retained=9)
    if not goes_back:
        config = world.pipeline.checkpoints
        world.pipeline = small_pipeline(OneWay(world.sink))
        world.pipeline.checkpoints = config
        world.reopen(store)
    for number in (1, 2):
        world.take(f"r{number}")
    assert mark(world) == MARK
    world.coordinator.restore(ToCheckpoint(1), Accepted(leave=() if goes_back else ("out",)))
    assert mark(world) == then
    world.take("r3")
    assert mark(world) == MARK


def test_in_another_database_it_is_not_known(store):
    """The table may be in the one that was lost."""
    world = MarkedLost()
    world.take("r1")
    world.lose(store)
    world.recover()
    assert SinkMark.of(world.before.subtasks("p", 1)[OUT].snapshot) == MARK
    assert mark(world) is None
    world.take("r2")
    assert mark(world) == MARK
