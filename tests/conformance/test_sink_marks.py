"""What a sink of upserts had at a checkpoint counts only where its table is known to have that again."""

from dataclasses import replace

import pytest
from lost_databases import Lost
from pasts import OUT, Past
from worlds import MemorySink, small_pipeline

from tidegate.coordination.context import context_of
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.coordination.steps.lookup import restore_latest, shown_checkpoints
from tidegate.ports import SinkInput
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


class Telling(MemorySink):
    """A sink whose table says what it has."""

    input = SinkInput.UPSERTS

    def __init__(self) -> None:
        super().__init__()
        self.table = None

    def commit(self, checkpoint_id, staged, attempt):
        super().commit(checkpoint_id, staged, attempt)
        self.table = checkpoint_id

    def rewind(self, checkpoint_id, branch, staged, attempt):
        super().rewind(checkpoint_id, branch, staged, attempt)
        self.table = checkpoint_id

    def shown_checkpoint(self):
        return self.table


class OneWay:
    """A sink that no restore takes back."""

    def __init__(self, sink):
        self._sink = sink

    def __getattr__(self, name):
        if name in ("rewind", "shown_outside", "withdrawn", "delete_withdrawn", "shown_checkpoint"):
            raise AttributeError(name)
        return getattr(self._sink, name)


def mark(world):
    """What the next checkpoint believes that the sink has."""
    context = context_of(world.coordinator.graph, world.store, world.storage, world.clock)
    with world.store.transaction("p") as tx:
        return SinkMark.of(restore_latest(tx, context, shown_checkpoints(context.graph))[1][OUT])


def opened(store, sink):
    world = MarkedPast(store, retained=9)
    world.sink = sink
    with_sink(world, sink)
    return world


def with_sink(world, sink):
    config = world.pipeline.checkpoints
    world.pipeline = small_pipeline(sink)
    world.pipeline.checkpoints = config
    world.reopen(world.store)


@pytest.mark.parametrize(("made", "then"), [(Telling, MARK), (MemorySink, None), (lambda: OneWay(MemorySink()), None)])
def test_a_restore_takes_it_back_together_with_its_table_if_that_can_tell(store, made, then):
    world = opened(store, made())
    for number in (1, 2):
        world.take(f"r{number}")
    assert mark(world) == MARK
    leave = ("out",) if isinstance(world.sink, OneWay) else ()
    world.coordinator.restore(ToCheckpoint(1), Accepted(leave=leave))
    assert mark(world) == then
    world.take("r3")
    assert mark(world) == MARK


@pytest.mark.parametrize("made", [Telling, MemorySink])
def test_a_sink_that_was_no_part_of_the_pipeline_when_it_was_restored_has_not_gone_back(store, made):
    world = opened(store, made())
    for number in (1, 2):
        world.take(f"r{number}")
    with_sink(world, OneWay(MemorySink()))  # as if it were another one
    world.coordinator.restore(ToCheckpoint(1), Accepted(leave=("out",)))
    with_sink(world, world.sink)
    assert mark(world) is None
    world.take("r3")
    assert mark(world) == MARK


@pytest.mark.parametrize("table", [None, 1, 3])
def test_a_table_that_does_not_have_the_checkpoint_is_noticed(store, table):
    """It was made anew, or is the one of a backup."""
    world = opened(store, Telling())
    for number in (1, 2):
        world.take(f"r{number}")
    world.sink.table = table
    assert mark(world) is None
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
