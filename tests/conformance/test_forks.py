"""Pipelines that begin with another one's state: on every store, whatever the original does, wherever they die."""

from hashlib import sha256

import pytest
from forks import New
from memory_store import MemoryCheckpointStore
from pasts import OP
from savepoint_directories import AT, directory, past_of
from sizes import sizes
from worlds import Crash

from tidegate.coordination.recover import Recovering
from tidegate.coordination.restore import ToCheckpoint, Undo
from tidegate.protocol.errors import (
    CheckpointError,
    CheckpointNotFoundError,
    CheckpointNotRetainedError,
    ForkRefusedError,
    NothingToUndoError,
    PipelineIdentityError,
    RestoreRefusedError,
    StateSchemaError,
    StorageError,
)
from tidegate.protocol.imports import IMPORT_LEASE
from tidegate.protocol.pipelines import PipelineStatus
from tidegate.protocol.recovered import AcceptedLosses
from tidegate.protocol.restore_plan import Accepted

SAVEPOINT = ToCheckpoint(2)


@pytest.fixture
def world(store):
    """The original: checkpoint 1, savepoint 2, also in its directory, and checkpoints 3 and 4 after it."""
    return past_of(store)


@pytest.fixture
def new(world):
    return New(world)


def check_forked(new, saved=None):
    """It has the state and the positions of the savepoint, in files of its own, and goes on from them."""
    saved = saved or new.original.saved
    first = new.store.history("q", 9)[-1]
    state, positions, table = new.latest()
    assert (state, positions, table) == (saved[0], saved[1], None)
    number = new.take("on from there")
    assert {handle.created_by for handle in new.restored} == {first.checkpoint_id}
    assert all(handle.path.startswith(f"q/chk-{first.checkpoint_id}/op/") for handle in new.restored)
    assert new.latest()[0] == saved[0] + f"r{number:02}".encode()
    assert new.latest()[2] == (number, f"rows {number}".encode())


@pytest.mark.parametrize("where", [SAVEPOINT, AT], ids=["native", "canonical"])
def test_a_pipeline_begins_with_a_savepoint_of_another_which_is_not_touched(new, where):
    before = new.untouched()
    planned = new.fork(where).plan
    assert new.untouched() == before
    assert [(each.source, each.is_known) for each in planned.sources] == [("src", True)]
    assert [(each.operator_id, each.matched, each.rows) for each in planned.operators] == [
        ("op", True, 1 if where == AT else 2)
    ]
    assert [(each.sink, each.is_filled) for each in planned.sinks] == [("out", True)]
    (first,) = new.store.history("q", 9)
    assert (first.checkpoint_id, first.request_id) == (3, "fork:p/2/kept")
    assert first.notified_at is not None
    pipeline = new.store.pipeline("q")
    assert (pipeline.status, pipeline.message) == (PipelineStatus.RUNNING, "It was forked from p, savepoint kept.")
    with new.store.transaction("q") as tx:
        assert {endpoint.name: endpoint.place for endpoint in tx.endpoints()} == {"src": "", "out": "/tables/q"}
        assert (tx.restores(), tx.imports()) == ([], {})
    check_forked(new)
    assert new.untouched() == before


def test_what_the_original_does_afterwards_changes_nothing(world, new):
    new.fork(SAVEPOINT)
    mine = new.files()
    world.restore(2)
    world.take("r5")
    world.coordinator.dispose("kept")
    for number in range(3):
        world.take(f"more {number}")
    world.coordinator.cancel()
    assert not [path for path in world.storage.files if path.startswith("p/chk-2/")]
    assert new.files() == mine
    check_forked(new)


def test_and_the_other_way_round(world, new):
    new.fork(SAVEPOINT)
    before = new.untouched()
    new.take("q1")
    new.coordinator.cancel()
    new.coordinator.clean()
    assert new.untouched() == before
    world.restore(2)
    assert world.latest() == world.saved


@pytest.mark.parametrize(("where", "forked"), [(ToCheckpoint(None), 4), (ToCheckpoint(4), 4), (ToCheckpoint(3), 3)])
def test_from_a_checkpoint_that_is_no_savepoint(world, new, where, forked):
    world.restore(3)
    world.restore(4)  # both are kept
    planned = new.fork(where).plan
    assert planned.fork.said() == f"p, checkpoint {forked}"
    assert new.latest()[0] == "".join(f"r{number:02}" for number in range(1, forked + 1)).encode()


def test_into_a_database_that_does_not_know_the_original(world):
    new = New(world, MemoryCheckpointStore())
    new.storage = type(world.storage)()
    new.storage.others = world.storage.others
    new.reopen(new.store)
    new.fork(AT)
    assert new.store.pipelines() == ["q"]
    directory(world).clear()
    check_forked(new)


def test_there_is_nothing_before_it_to_go_back_to(new):
    new.fork(SAVEPOINT)
    with pytest.raises(NothingToUndoError, match="A fork is no restore: there is nothing before it to go back to"):
        new.coordinator.restore(Undo())
    new.take("q1")
    new.restore(3)
    assert new.latest()[:2] == new.original.saved[:2]
    assert new.sink.current is None  # the next run stages the rows again


def test_its_storage_alone_knows_of_it_afterwards(new):
    new.fork(SAVEPOINT)
    new.store = MemoryCheckpointStore()
    new.reopen(new.store)
    with pytest.raises(PipelineIdentityError, match="tidegate recover"):
        new.take("q1")
    recovering = Recovering(new.coordinator.graph, new.store, new.storage, new.clock)
    recovering.recover(recovering.plan(), AcceptedLosses())
    assert new.store.history("q", 9)[-1].request_id == "fork:p/2/kept"
    check_forked(new)


def test_a_plan_changes_nothing(new):
    new.store.pipelines()
    before, files = new.untouched(), dict(new.storage.files)
    for where in (SAVEPOINT, AT, ToCheckpoint(None)):
        new.plan(where)
    assert (new.untouched(), new.storage.files, new.store.history("q", 9)) == (before, files, [])


def test_what_runs_of_the_new_pipeline_began_with_nothing_and_is_ended(new):
    region = new.coordinator.start_region()
    new.fork(SAVEPOINT)
    with pytest.raises(CheckpointError, match=r"another|taken over|ended"):
        new.coordinator.keep_region(region.attempt)
    check_forked(new)


# -- refused


def refused(new, where, error, match, accepted=None):
    before, files = new.untouched(), dict(new.storage.files)
    with pytest.raises(error, match=f"(?s){match}") as raised:
        new.fork(where, accepted)
    assert "Nothing was changed" in str(raised.value) or "nothing was changed" in str(raised.value)
    assert new.untouched() == before
    assert new.storage.files == files


def test_a_pipeline_with_a_past_of_its_own(new):
    new.take("q1")
    refused(
        new, SAVEPOINT, ForkRefusedError, "Pipeline q was not forked from p, savepoint kept: .*up to 1.*another name"
    )


def test_a_fork_that_has_happened(new):
    new.fork(SAVEPOINT)
    refused(
        new, SAVEPOINT, ForkRefusedError, "it was before, as its checkpoint 3.*it has taken effect: `tidegate run q`"
    )
    refused(new, ToCheckpoint(4), ForkRefusedError, "this database knows checkpoints of it, up to 3")


def test_a_pipeline_whose_checkpoints_only_its_storage_knows(new):
    new.take("q1")
    new.store = MemoryCheckpointStore()
    new.original.store = new.store
    new.reopen(new.store)
    with pytest.raises(PipelineIdentityError, match="tidegate recover q"):
        new.fork(AT)


def test_a_pipeline_that_was_ended(new):
    new.coordinator.cancel()
    refused(new, SAVEPOINT, ForkRefusedError, "it is CANCELLED. Give the new pipeline another name")


def test_to_itself(world, new):
    new.pipeline.name = "p"
    new.reopen(new.store)
    refused(new, SAVEPOINT, ForkRefusedError, "a pipeline cannot be forked to itself.*name of its own")


def test_to_the_originals_table(new, monkeypatch):
    monkeypatch.setattr(type(new.sink), "describe", lambda self: {"type": "MemorySink"})
    new.reopen(new.store)
    refused(new, SAVEPOINT, ForkRefusedError, "its sink 'out' .* writes where sink 'out' of pipeline p does")


def test_to_a_table_that_has_rows(new):
    new.sink.current = (7, b"of whom?")
    refused(new, SAVEPOINT, ForkRefusedError, "something already where its sink out writes.*empty place")


def test_from_what_is_not_there(world, new):
    refused(new, ToCheckpoint(9), CheckpointNotFoundError, "no checkpoint 9")
    refused(new, ToCheckpoint(1), CheckpointNotRetainedError, "its state is deleted")
    refused(new, "memory://nowhere", ForkRefusedError, "from memory://nowhere: it has no marker _savepoint")
    new.original = New(world)
    new.original.pipeline.name = "other"
    refused(new, AT, ForkRefusedError, "it is a savepoint of pipeline p, not of other")


def test_from_a_file_that_is_damaged(new):
    new.storage.files["p/chk-2/op/0-1-x.parquet"] = b"r99"
    refused(new, SAVEPOINT, ForkRefusedError, "not as it was written, or is there no more.*p/chk-2/op/0-1-x.parquet")


def test_from_the_storage_of_another_project(new):
    files, new.storage.files = new.storage.files, {}
    refused(new, SAVEPOINT, PipelineIdentityError, "not on the checkpoint storage of this process")
    new.storage.files = files


def test_a_definition_that_cannot_go_on_from_it(new):
    new.pipeline.max_parallelism = 16
    new.reopen(new.store)
    refused(new, SAVEPOINT, StateSchemaError, "max_parallelism 8")


def test_sources_that_are_elsewhere_must_be_confirmed(new):
    source = new.pipeline.vertices[0].source
    source.describe = lambda: {"type": "SplitSource", "path": "/copied"}
    new.reopen(new.store)
    refused(new, SAVEPOINT, ForkRefusedError, "source 'src' is SplitSource, and here it is .* at /copied.*--relocate")
    new.fork(SAVEPOINT, Accepted(moved=True))
    check_forked(new)


def test_state_without_an_operator_is_dropped_only_when_that_is_said(new):
    for vertex in new.pipeline.vertices:
        if vertex.name == "op":
            object.__setattr__(vertex, "name", "renamed")
        elif vertex.name == "out":
            object.__setattr__(vertex, "input", type(vertex.input)(new.pipeline, "renamed"))
    new.reopen(new.store)
    assert new.plan(SAVEPOINT).plan.new == ("renamed",)
    refused(new, SAVEPOINT, ForkRefusedError, "no operator for the state of op;.*--allow-non-restored-state")
    new.fork(SAVEPOINT, Accepted(non_restored_state=True))
    assert not [path for path in new.files() if "/op/" in path]
    assert new.coordinator.trigger("goes on").checkpoint_id == 4


def test_a_savepoint_cannot_be_restored_by_another_pipeline_and_the_way_is_said(new):
    with pytest.raises(RestoreRefusedError, match="`tidegate fork p q --from URL`"):
        new.coordinator.restore_from(AT)


# -- meanwhile


def test_a_savepoint_that_is_given_up_while_it_is_copied(world, new):
    planned = new.plan(SAVEPOINT)
    world.coordinator.dispose("kept")
    with pytest.raises(ForkRefusedError, match="is there no more"):
        new.coordinator.fork(planned)
    assert (new.store.history("q", 9), new.files()) == ([], {})


def test_a_pipeline_that_begins_while_files_are_copied(new, monkeypatch):
    def slow(self, *arguments):
        if not new.store.history("q", 1):
            new.take("meanwhile")
        copy(self, *arguments)

    copy = type(new.storage).copy
    monkeypatch.setattr(type(new.storage), "copy", slow)
    with pytest.raises(ForkRefusedError, match="knows checkpoints of it, up to 4"):
        new.fork(SAVEPOINT)
    assert not [path for path in new.files() if path.startswith("q/chk-3/")]
    assert new.latest()[0] == b"r04"


def test_a_full_disk_leaves_nothing_behind(new, monkeypatch):
    def full(self, file, source, path, keep):
        if "/src/" in path:
            raise StorageError("The storage is full.")
        copy(self, file, source, path, keep)

    copy = type(new.storage).copy
    monkeypatch.setattr(type(new.storage), "copy", full)
    with pytest.raises(StorageError, match="is full"):
        new.fork(SAVEPOINT)
    assert (new.store.history("q", 9), new.files()) == ([], {})
    monkeypatch.undo()
    new.fork(SAVEPOINT)
    check_forked(new)


def test_who_stands_still_is_overtaken_and_what_it_has_copied_is_swept(new, monkeypatch):
    def stopped(self, file, source, path, keep):
        copy(self, file, source, path, keep)
        if not stood:
            stood.append(path)
            new.clock.advance(IMPORT_LEASE.total_seconds() + 1)
            new.coordinator.clean()
            assert path not in new.storage.files

    copy, stood = type(new.storage).copy, []
    monkeypatch.setattr(type(new.storage), "copy", stopped)
    with pytest.raises(ForkRefusedError, match=r"copying stood still.*Nothing was changed\."):
        new.fork(SAVEPOINT)
    monkeypatch.undo()
    new.fork(SAVEPOINT)
    check_forked(new)


@sizes("step", sample=4, whole=1)
@pytest.mark.parametrize("where", [SAVEPOINT, AT], ids=["native", "canonical"])
def test_a_fork_that_dies_before_or_after_any_effect_has_not_happened_or_is_finished(where, step):
    uninterrupted = New(past_of(MemoryCheckpointStore()))
    uninterrupted.fork(where)
    expected, number, survived, crashes = uninterrupted.latest(), 0, False, 0
    while not survived:
        survived = True
        for before in (True, False):
            new = New(past_of(MemoryCheckpointStore()))
            untouched = new.untouched()
            new.mortal().effects.die(number, before)
            try:
                new.fork(where)
            except Crash:
                survived = False
                crashes += 1
            new.effects.die(None)
            new.clock.advance(2 * IMPORT_LEASE.total_seconds())  # the holder of a lease is dead
            new.reopen(new.store)
            new.coordinator.clean()
            if new.store.history("q", 9):
                with pytest.raises(ForkRefusedError, match="it has taken effect"):
                    new.fork(where)
            else:
                assert new.files() == {}
                new.fork(where)
            assert new.latest() == expected
            check_all_is_needed(new)
            check_forked(new)
            assert new.untouched() == untouched
        number += step
    assert crashes > 16 // step


def check_all_is_needed(new):
    """Every file of the new pipeline is one that its checkpoint refers to, as it was written."""
    (first,) = new.store.history("q", 9)
    known = new.store.subtasks("q", first.checkpoint_id)
    handles = [handle for each in known.values() for handle in each.snapshot.handles]
    assert known[OP].snapshot.handles
    documents = {f"q/chk-{first.checkpoint_id}/{name}" for name in ("_metadata", "_committed")}
    assert {handle.path for handle in handles} == set(new.files()) - documents
    for handle in handles:
        assert sha256(new.files()[handle.path]).hexdigest() == handle.checksum
