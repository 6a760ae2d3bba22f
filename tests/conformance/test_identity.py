"""Two pipelines of one name do not merge: the second is refused before anything is done,
until a person says it is meant."""

import pytest
from user_actions import resume, suspend
from worlds import Judge, ManualClock, MemorySink, MemoryStorage, SplitSource, small_pipeline

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.definition import Pipeline
from tidegate.protocol.facts.errors import PipelineIdentityError, PipelineStatusError
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.recovery.identity import Endpoint, Role
from tidegate.protocol.steps.trigger import Triggered


class PlacedSource(SplitSource):
    def __init__(self, path, type_="PlacedSource"):
        super().__init__(1)
        self.described = {"type": type_, "path": path}

    def describe(self):
        return self.described


class PlacedSink(MemorySink):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def describe(self):
        return {"type": "PlacedSink", "path": self.path}


def opened(store, sinks, type_="PlacedSource", **sources):
    """A coordinator of a pipeline `p` with sources and sinks at these places; the sinks read the first source."""
    pipeline = Pipeline("p", parallelism=1, max_parallelism=8)
    streams = [pipeline.source(name, PlacedSource(path, type_)) for name, path in sources.items()]
    for name, path in sinks.items():
        streams[0].sink(name, PlacedSink(path))
    return CheckpointCoordinator(pipeline, store, MemoryStorage(), ManualClock())


@pytest.fixture
def begun(store):
    """Checkpoint 1 is in progress."""
    assert opened(store, {"out": "/t/out"}, src="/in").trigger("r1") == Triggered(1)
    return store


def test_a_second_pipeline_of_the_name_is_refused_and_nothing_changes(begun):
    before = begun.history("p", 10)
    with pytest.raises(
        PipelineIdentityError, match=r"source 'src' is PlacedSource at /in, and here it is .* at /other"
    ):
        opened(begun, {"out": "/t/out"}, src="/other").trigger("r2")
    with pytest.raises(PipelineIdentityError, match="sink 'out' is PlacedSink at /t/out"):
        opened(begun, {"out": "/elsewhere"}, src="/in").start_region()
    with pytest.raises(PipelineIdentityError, match="and here it is Kafka"):
        opened(begun, {"out": "/t/out"}, "Kafka", src="/in").cancel()
    assert begun.history("p", 10) == before
    assert begun.pipeline("p").status is PipelineStatus.RUNNING


def test_a_dropped_request_records_nothing(store):
    suspend(opened(store, {"out": "/t/out"}, src="/in"))
    opened(store, {"out": "/t/out"}, src="/in").trigger("r1")
    opened(store, {"out": "/t/out"}, src="/other").trigger("r2")
    with store.transaction("p") as tx:
        assert tx.endpoints() == []


def test_what_is_added_passes_and_what_comes_back_is_still_checked(begun):
    suspend(opened(begun, {"more": "/t/more"}, src="/in", added="/added"))
    resume(opened(begun, {"more": "/t/more"}, src="/in"))
    assert isinstance(opened(begun, {"more": "/t/more"}, src="/in", added="/added").trigger("r2"), Triggered)
    with pytest.raises(PipelineIdentityError, match="sink 'out'"):
        opened(begun, {"out": "/t/back"}, src="/in").trigger("r3")
    with pytest.raises(PipelineIdentityError, match="source 'added'"):
        opened(begun, {"more": "/t/more"}, src="/in", added="/elsewhere").trigger("r3")


def test_a_region_records_too(store):
    opened(store, {"out": "/t/out"}, src="/in").start_region()
    with pytest.raises(PipelineIdentityError):
        opened(store, {"out": "/t/out"}, src="/other").trigger("r1")


def test_moved_on_purpose_it_goes_on_and_the_old_place_is_the_stranger(begun):
    moved = opened(begun, {"out": "/t/moved"}, src="/in")
    with pytest.raises(PipelineStatusError, match=r"while checkpoint 1 is in progress.*tidegate suspend p"):
        moved.relocate()
    suspend(moved)
    assert [str(each) for each in moved.moved()] == [
        "sink 'out' is PlacedSink at /t/out, and here it is PlacedSink at /t/moved"
    ]
    assert moved.relocate() != []
    assert moved.relocate() == []
    resume(moved)
    assert moved.trigger("r2") == Triggered(2)
    with pytest.raises(PipelineIdentityError, match="/t/moved"):
        opened(begun, {"out": "/t/out"}, src="/in").trigger("r3")


def test_rows_staged_where_a_sink_was_are_delivered_before_it_is_relocated(desk):
    at_desk = desk()
    first = at_desk.ask("r1").checkpoint_id
    at_desk.acknowledge(first)
    at_desk.coordinator.validate(first, Judge(True))
    at_desk.coordinator.finalize(first)
    moved = CheckpointCoordinator(small_pipeline(PlacedSink("/moved")), at_desk.store, at_desk.storage, at_desk.clock)
    with pytest.raises(PipelineStatusError, match="checkpoint 1 has completed, and its rows are staged"):
        moved.relocate()
    at_desk.coordinator.notify(first)
    assert len(moved.relocate()) == 1


def test_the_first_checkpoint_records_what_there_is(begun):
    with begun.transaction("p") as tx:
        assert set(tx.endpoints()) == {
            Endpoint(Role.SOURCE, "src", "PlacedSource", "/in"),
            Endpoint(Role.SINK, "out", "PlacedSink", "/t/out"),
        }


def test_a_copy_of_a_project_does_not_go_on_from_state_that_it_does_not_have(desk):
    at_desk = desk()
    at_desk.complete(at_desk.ask("r1").checkpoint_id)
    there = at_desk.storage.url
    at_desk.storage = MemoryStorage()
    at_desk.reopen(at_desk.store)
    for begin in (lambda: at_desk.ask("r2"), at_desk.coordinator.start_region, at_desk.coordinator.cancel):
        with pytest.raises(PipelineIdentityError, match=rf"p/chk-1/_metadata, which is not on .*\({there}\)"):
            begin()
    assert len(at_desk.store.history("p", 10)) == 1


def test_a_checkpoint_that_is_replaced_while_somebody_looks_for_it_is_no_stranger(desk):
    """The newest checkpoint is read, then another one completes, and the one that was read is deleted."""
    at_desk = desk()
    at_desk.complete(at_desk.ask("r1").checkpoint_id)
    second = at_desk.ask("r2").checkpoint_id
    at_desk.reopen(at_desk.store)  # a process that has not looked yet
    listed = at_desk.storage.list

    def overtaken(prefix):
        at_desk.storage.list = listed
        at_desk.complete(second)
        assert listed("p/chk-1") == []
        return listed(prefix)

    at_desk.storage.list = overtaken
    assert isinstance(at_desk.ask("r3"), Triggered)


def test_a_process_looks_where_its_state_is_once_and_again_after_another_one_has_completed(desk):
    at_desk, other = desk(), desk()
    at_desk.complete(at_desk.ask("r1").checkpoint_id)
    listed, at_desk.storage.list = at_desk.storage.list, lambda prefix: looked.append(prefix) or listed(prefix)
    looked = []
    second = at_desk.ask("r2").checkpoint_id
    assert looked == [], "it has written the newest one itself"
    other.storage = at_desk.storage
    other.reopen(at_desk.store)
    other.complete(second)
    looked.clear()
    at_desk.ask("r3")
    assert looked == ["p/chk-2"]
