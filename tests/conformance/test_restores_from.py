"""Restores from savepoints' directories, into any database: on every store, whatever lies there, wherever they die."""

import json

import pytest
from memory_store import MemoryCheckpointStore
from savepoint_directories import AT, Exported, check_restored, copy_of, directory, past_of
from user_actions import dispose
from worlds import MemorySink

from tidegate.coordination.context import context_of
from tidegate.coordination.recovery.lost_database import Recovering
from tidegate.coordination.recovery.restore import ToCheckpoint, Undo
from tidegate.ports import SinkInput
from tidegate.protocol.facts.errors import (
    CheckpointError,
    RestoreRefusedError,
    StateSchemaError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.recovery.canonical import MARKER, METADATA
from tidegate.protocol.recovery.imports import ClaimMode
from tidegate.protocol.recovery.lost_database import WITHOUT_TRACE, AcceptedLosses
from tidegate.protocol.recovery.restore_plan import Accepted


@pytest.fixture
def world(store):
    """Checkpoint 1, savepoint 2 in its directory, and checkpoints 3 and 4 after it."""
    return past_of(store)


@pytest.fixture
def lost(store):
    """The same, but the database is lost, and the checkpoint storage with it; the store is empty."""
    found = past_of(MemoryCheckpointStore())
    found.store = store
    others, found.storage = found.storage.others, type(found.storage)()
    found.storage.others = others
    found.reopen(store)
    return found


def test_into_an_empty_database(lost):
    before = dict(directory(lost))
    plan = lost.coordinator.restore_from(AT)
    assert (plan.restore.checkpoint.checkpoint_id, plan.restore.left_behind) == (2, ())
    assert directory(lost) == before
    with lost.store.transaction("p") as tx:
        assert tx.region().attempt == WITHOUT_TRACE
        assert tx.committer().attempt >= WITHOUT_TRACE
        assert [endpoint.name for endpoint in sorted(tx.endpoints(), key=str)] == ["out", "src"]
        (restore,) = tx.restores()
        assert (restore.checkpoint_id, restore.goes_on_from) == (2, restore.last_checkpoint_id + 1)
        assert tx.imports() == {}
    assert lost.store.pipeline("p").status is PipelineStatus.RUNNING
    assert lost.store.history("p", 9)[-1].checkpoint_id > 4  # the table shows rows of checkpoint 4
    directory(lost).clear()
    check_restored(lost)


def test_into_the_database_that_knows_it_and_back(world):
    before = world.latest()
    plan = world.coordinator.restore_from(AT)
    assert (plan.restore.left_behind, plan.restore.sinks[0].withdrawn) == ((3, 4), (4,))
    assert world.ids() == ([2, 5], [3, 4])
    check_restored(world, 5)
    world.coordinator.restore(Undo())
    assert world.latest() == before
    assert world.ids()[0][-2:] == [3, 4]


def test_into_the_database_that_has_forgotten_it_long_ago(world):
    url = copy_of(world)
    dispose(world.coordinator, "kept")
    assert world.store.checkpoint("p", 2).status is Status.DISCARDED
    world.coordinator.restore_from(url)
    assert world.ids() == ([5], [3, 4])
    check_restored(world, 5)
    world.restore(4)
    assert world.latest()[2] == (4, b"rows 4")


def test_twice_and_after_other_restores(world):
    world.restore(4)
    world.coordinator.restore_from(AT)
    world.take("r6")
    world.coordinator.restore_from(AT)
    check_restored(world)
    with world.store.transaction("p") as tx:
        assert [each.goes_on_from for each in tx.restores()] == [4, 5, 7]


@pytest.mark.parametrize("claim", ClaimMode)
def test_a_claimed_directory_is_emptied_and_another_one_is_not_touched(lost, claim):
    lost.coordinator.restore_from(AT, claim)
    assert bool(directory(lost)) == (claim is ClaimMode.NO_CLAIM)
    check_restored(lost)


def test_the_directory_of_a_savepoint_of_this_database_is_not_claimed(world):
    with pytest.raises(RestoreRefusedError, match=r"because savepoint kept of this database is there.*dispose"):
        world.coordinator.restore_from(AT, ClaimMode.CLAIM)
    world.coordinator.restore_from(copy_of(world), ClaimMode.CLAIM)
    assert directory(world, "memory://copy") == {}
    check_restored(world, 5)


def test_what_a_checkpoint_has_merged_is_not_used_on_another_branch_and_a_stopped_pipeline_runs_again(world):
    world.coordinator.cancel()
    world.coordinator.restore_from(AT)
    assert world.store.pipeline("p").status is PipelineStatus.RUNNING
    check_restored(world, 5)


def test_what_runs_is_ended(world):
    region = world.coordinator.start_region()
    world.ask("r5")
    world.coordinator.restore_from(AT)
    assert world.store.checkpoint("p", 5).status is Status.FAILED
    with pytest.raises(CheckpointError, match=r"restored|another|taken over"):
        world.coordinator.keep_region(region.attempt)
    check_restored(world, 6)


def test_a_plan_changes_nothing(world):
    before = world.everything()
    world.coordinator.plan_restore_from(AT)
    assert world.everything() == before


def test_a_plan_changes_nothing_in_an_empty_database(lost):
    before = lost.everything()
    assert lost.coordinator.plan_restore_from(AT).restore.previous is None
    assert lost.everything() == before


DAMAGE = {
    "has no marker _savepoint": lambda files: files.pop(MARKER),
    "is missing|state/op/0.parquet": lambda files: files.pop("state/op/0.parquet"),
    "positions/src/2-0-1-m is damaged": lambda files: files.update({"positions/src/2-0-1-m": b"read by X"}),
    "staged/out-sink/0-0.parquet is damaged": lambda files: files.update({"staged/out-sink/0-0.parquet": b"row"}),
    "_metadata differs from the written one": lambda files: change(files, METADATA, name="other"),
    "_metadata is not JSON": lambda files: files.update({METADATA: files[METADATA][:-9]}),
    "_savepoint is not of the format": lambda files: change(files, MARKER, format="other"),
    "_savepoint is damaged: 'sha256' is missing": lambda files: remove(files, MARKER, "sha256"),
    "_metadata has version 2 of its format": lambda files: change(files, METADATA, version=2),
    "_savepoint has version 2 of its format": lambda files: change(files, MARKER, version=2),
    "is a savepoint of pipeline q": lambda files: signed(files, pipeline="q"),
    "'../x' is no file of": lambda files: pointed(files, "../x"),
    "'state/op/../../../x' is no file of": lambda files: pointed(files, "state/op/../../../x"),
    "is of another history": lambda files: signed(files, request_id="of another project"),
}


def change(files, path, **changes):
    files[path] = json.dumps(json.loads(files[path]) | changes).encode()


def remove(files, path, name):
    files[path] = json.dumps({key: value for key, value in json.loads(files[path]).items() if key != name}).encode()


def signed(files, **changes):
    """As somebody would forge it, or another pipeline would have written it."""
    from hashlib import sha256

    change(files, METADATA, **changes)
    marker = {"pipeline": changes["pipeline"]} if "pipeline" in changes else {}
    change(files, MARKER, sha256=sha256(files[METADATA]).hexdigest(), **marker)


def pointed(files, path):
    operators = json.loads(files[METADATA])["operators"]
    (state,) = (each for each in operators if each["operator_id"] == "op")
    state["subtasks"][0]["handles"][0]["path"] = path
    signed(files, operators=operators)


@pytest.mark.parametrize("reason", DAMAGE)
def test_anything_else_is_refused_with_the_reason_and_nothing_is_changed(reason):
    world = past_of(MemoryCheckpointStore())
    DAMAGE[reason](directory(world, copy_of(world)))
    before = world.everything()
    with pytest.raises(
        RestoreRefusedError, match=f"(?s)Pipeline p was not restored from memory://copy: .*({reason})"
    ) as e:
        world.coordinator.restore_from("memory://copy")
    assert str(e.value).endswith("Nothing was changed.")
    assert world.everything() == before
    world.take("r5")


def test_a_copy_does_not_bring_back_a_branch_whose_appended_rows_are_deleted(store):
    """The savepoint was given up after a restore had left it behind, but somebody has copied its directory."""
    world = Exported(store, retained=9)
    world.take("r1")
    world.savepoint("kept", AT)
    copied = copy_of(world)
    world.coordinator.restore(ToCheckpoint(1))
    world.take("on")
    world.sink.input = SinkInput.CHANGES
    world.reopen(store)
    assert world.coordinator.plan_restore_from(copied)  # what it had appended is withdrawn, but kept
    dispose(world.coordinator, "kept")
    before = world.everything()
    with pytest.raises(RestoreRefusedError, match="appended to out are deleted for good"):
        world.coordinator.plan_restore_from(copied)
    assert world.everything() == before


def test_a_database_that_learns_of_the_pipeline_meanwhile_is_not_overwritten(lost):
    plan = lost.coordinator.plan_restore_from(AT)
    table, lost.sink.current = lost.sink.current, None
    lost.ask("r1")
    lost.sink.current = table
    with pytest.raises(RestoreRefusedError, match=r"has changed|another history"):
        lost.coordinator.restore_from(AT, planned=plan)
    with pytest.raises(RestoreRefusedError, match="of another history"):
        lost.coordinator.restore_from(AT)


def test_sources_and_sinks_that_are_elsewhere_must_be_confirmed(lost, monkeypatch):
    monkeypatch.setattr(MemorySink, "describe", lambda self: {"type": "MemorySink", "path": "/moved"})
    lost.reopen(lost.store)
    with pytest.raises(RestoreRefusedError, match=r"sink 'out' is MemorySink, and here .* at /moved.*--relocate"):
        lost.coordinator.restore_from(AT)
    assert lost.store.history("p", 1) == []
    lost.coordinator.restore_from(AT, accepted=Accepted(moved=True))
    check_restored(lost)


def test_a_definition_that_cannot_go_on_from_it_is_refused(world):
    world.pipeline.max_parallelism = 16
    world.reopen(world.store)
    before = world.everything()
    with pytest.raises(StateSchemaError, match="max_parallelism 8"):
        world.coordinator.restore_from(AT)
    assert world.everything() == before


def test_the_storage_alone_knows_of_it_afterwards(world):
    world.coordinator.restore_from(AT)
    lost = MemoryCheckpointStore()
    world.store = lost
    world.reopen(lost)
    recovering = Recovering(context_of(world.coordinator.graph, lost, world.storage, world.clock))
    recovering.recover(recovering.plan(), AcceptedLosses())
    assert world.ids() == ([2, 5], [3, 4])
    check_restored(world, 5)


def test_state_without_an_operator_is_dropped_only_when_that_is_said(lost):
    document = json.loads(directory(lost)[METADATA])
    for operator in document["operators"]:
        if operator["operator_id"] == "op":
            operator["operator_id"] = "gone"
            for subtask in operator["subtasks"]:
                for handle in subtask["handles"]:
                    directory(lost)["state/gone/0.parquet"] = directory(lost)["state/op/0.parquet"]
                    handle["path"] = "state/gone/0.parquet"
    signed(directory(lost), operators=document["operators"])
    with pytest.raises(RestoreRefusedError, match=r"no operator for the state of gone.*--allow-non-restored-state"):
        lost.coordinator.restore_from(AT)
    lost.coordinator.restore_from(AT, accepted=Accepted(non_restored_state=True))
    lost.take("on from there")
    assert lost.restored == ()
