"""Forks that are refused, on every store: with the reason, and nothing is changed."""

import pytest
from forks import SAVEPOINT, New
from memory_store import MemoryCheckpointStore
from savepoint_directories import AT, past_of

from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.protocol.facts.errors import (
    CheckpointNotFoundError,
    CheckpointNotRetainedError,
    ForkRefusedError,
    PipelineIdentityError,
    RestoreRefusedError,
    StateSchemaError,
)
from tidegate.protocol.recovery.restore_plan import Accepted


@pytest.fixture
def world(store):
    """The original: checkpoint 1, savepoint 2, also in its directory, and checkpoints 3 and 4 after it."""
    return past_of(store)


@pytest.fixture
def new(world):
    return New(world)


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
        new,
        SAVEPOINT,
        ForkRefusedError,
        "it was forked before, as its checkpoint 3.*it has taken effect: `tidegate run q`",
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
    refused(new, SAVEPOINT, ForkRefusedError, "the place of its sink out is not empty.*empty place")


def test_from_what_is_not_there(world, new):
    refused(new, ToCheckpoint(9), CheckpointNotFoundError, "no checkpoint 9")
    refused(new, ToCheckpoint(1), CheckpointNotRetainedError, "its state is deleted")
    refused(new, "memory://nowhere", ForkRefusedError, "from memory://nowhere: it has no marker _savepoint")
    new.original = New(world)
    new.original.pipeline.name = "other"
    refused(new, AT, ForkRefusedError, "it is a savepoint of pipeline p, not of other")


def test_from_a_file_that_is_damaged(new):
    new.storage.files["p/chk-2/op/0-1-x.parquet"] = b"r99"
    refused(new, SAVEPOINT, ForkRefusedError, "has changed, or it no longer exists.*p/chk-2/op/0-1-x.parquet")


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
    new.check_forked()


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
