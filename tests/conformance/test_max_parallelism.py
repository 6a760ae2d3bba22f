"""A pipeline that does not say how many key groups there are keeps those of its state."""

from forks import SAVEPOINT, New
from savepoint_directories import past_of
from worlds import MemorySink, small_pipeline

from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.coordination.steps.lookup import keep_max_parallelism
from tidegate.pipeline.definition import Pipeline


def grown(pipeline: Pipeline, parallelism: int) -> Pipeline:
    """The same vertices with another parallelism, and without max_parallelism."""
    other = Pipeline(pipeline.name, parallelism, checkpoints=pipeline.checkpoints)
    pipeline.parallelism, pipeline.max_parallelism = other.parallelism, other.max_parallelism
    pipeline.sets_max_parallelism = other.sets_max_parallelism
    return pipeline


def test_a_raised_parallelism_keeps_the_key_groups_of_the_state(desk, store):
    before = desk()
    kept = before.pipeline.max_parallelism
    before.ask("r1")
    before.complete(1)
    fresh = grown(small_pipeline(MemorySink()), kept)
    assert fresh.max_parallelism == 128
    keep_max_parallelism(fresh, store)
    assert fresh.max_parallelism == kept
    beyond = grown(small_pipeline(MemorySink()), kept + 1)
    keep_max_parallelism(beyond, store)
    assert beyond.max_parallelism == 128  # and a run is refused: this many subtasks do not fit the state


def test_a_restore_keeps_those_of_the_checkpoint_it_leads_to(desk, store):
    before = desk()
    before.ask("r1")
    before.complete(1)
    before.pipeline = grown(before.pipeline, 2)
    before.reopen(store)
    assert before.coordinator.plan_restore(ToCheckpoint(1)).checkpoint.checkpoint_id == 1


def test_what_is_set_and_what_has_no_state_is_left_as_it_is(desk, store):
    fresh = grown(small_pipeline(MemorySink()), 100)
    keep_max_parallelism(fresh, store)
    assert fresh.max_parallelism == 256
    before = desk()
    before.ask("r1")
    before.complete(1)
    said = small_pipeline(MemorySink())
    said.max_parallelism = 64
    keep_max_parallelism(said, store)
    assert said.max_parallelism == 64


def test_a_fork_keeps_those_of_the_state_it_begins_with(store):
    original = past_of(store)
    kept = original.pipeline.max_parallelism
    new = New(original)
    new.pipeline = grown(new.pipeline, 2)
    assert new.pipeline.max_parallelism != kept
    new.reopen(store)
    new.fork(SAVEPOINT)
    keep_max_parallelism(new.pipeline, store)
    assert new.pipeline.max_parallelism == kept
    new.reopen(store)
    new.check_forked()
