"""`tidegate clean`: what is kept, why and at what cost, and what goes; on every store, and wherever it dies."""

from dataclasses import replace
from datetime import timedelta

import pytest
from effects import Effects, Mortal, MortalTransactions
from pasts import Past
from sizes import later
from worlds import Crash, small_pipeline

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.errors import PipelineIdentityError
from tidegate.protocol.kept import Cost, reasons_text
from tidegate.protocol.lifecycle import Status
from tidegate.protocol.paths import marker_path, metadata_path
from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.records import Deletion, HandleKind
from tidegate.protocol.retention import SWEEP_FOR

DAY = 86_400
OUT = "sink:out-sink"
OVERDUE = {"retained": 1, "retained_for": "7 d", "undo_within": "1 d", "timeout": "30 d"}


@pytest.fixture
def past(store):
    """With checkpoints 1 to 4 behind it."""

    def open_(**config):
        world = Past(store, **config)
        for number in (1, 2, 3, 4):
            assert world.take(f"r{number}") == number
        return world

    return open_


def whys(report):
    return {kept.record.checkpoint_id: [str(reason.why) for reason in kept.reasons] for kept in report.kept}


def everything(world):
    """All that a cleaning may change."""
    history = [(record.checkpoint_id, record.status) for record in world.store.history("p", 99)]
    return dict(world.storage.files), dict(world.sink.staged), dict(world.sink.put_away), history


def left_there(world, *paths):
    for path in paths:
        world.storage.files[path] = b"left"
    return set(paths)


def settle(world):
    """Until the routine looks nowhere any more."""
    world.clock.advance(SWEEP_FOR.total_seconds() + 1)
    world.coordinator.clean()
    with world.store.transaction("p") as tx:
        assert tx.unswept() == {}


# -- age


def test_number_and_age_keep_each_for_itself(past):
    world = past(retained=2, retained_for="7 d")
    assert world.ids() == ([1, 2, 3, 4], [])
    world.clock.advance(7 * DAY - 1)
    world.coordinator.clean()
    assert world.ids() == ([1, 2, 3, 4], [])
    world.clock.advance(1)
    world.coordinator.clean()
    assert world.ids() == ([3, 4], [])
    assert "p/chk-1/_metadata" not in world.storage.files
    assert world.store.checkpoint("p", 1).status is Status.DISCARDED


def test_a_checkpoint_that_completes_lets_the_old_ones_go(past):
    world = past(retained_for="1 h")
    world.clock.advance(1800)
    world.take("r5")
    world.clock.advance(1801)
    world.take("r6")
    assert world.ids() == ([5, 6], [])


def test_savepoints_and_the_latest_never_expire(past):
    world = past(retained_for="1 h")
    world.take("mine", savepoint=True)
    world.take("r6")
    world.clock.advance(365 * DAY)
    world.coordinator.cleaning.clean()
    assert world.ids() == ([5, 6], [])


def test_a_checkpoint_in_progress_keeps_the_files_of_what_it_goes_on_from(past):
    world = past(retained_for="1 h")
    world.ask("r5")
    world.snapshot(5)
    world.clock.advance(300)
    world.coordinator.cleaning.clean()
    before = dict(world.storage.files)
    world.clock.advance(DAY)
    world.coordinator.cleaning.clean()
    assert {path for path in before.keys() - world.storage.files.keys() if "/op/" in path} == set()


# -- what is kept, why, and what it costs


def test_each_kept_checkpoint_has_its_reasons_and_its_cost(past):
    world = past(retained=2, undo_within="7 d")
    world.take("mine", savepoint=True)
    world.take("r6")
    world.restore(5)
    world.take("r7")
    report = world.coordinator.cleaning.plan()
    assert whys(report) == {
        4: ["RETAINED"],
        5: ["SAVEPOINT"],
        6: ["UNDO_UNTIL"],
        7: ["LATEST", "RETAINED"],
    }
    # Every checkpoint carries the runs of all that it follows; each run has three bytes.
    assert [(each.full, each.alone) for each in report.kept] == [
        (Cost(4, 12), Cost()),
        (Cost(5, 15), Cost()),
        (Cost(6, 18), Cost(1, 3)),
        (Cost(6, 18), Cost(1, 3)),
    ]
    assert report.total == Cost(7, 21)
    until = world.clock.now() + timedelta(days=7)
    assert [reasons_text(each) for each in report.kept] == [
        "retained", "savepoint 5", f"undo until {until:%Y-%m-%d %H:%M} UTC", "latest, retained",
    ]  # fmt: skip
    assert report.withdrawn == {"out": (6,)}
    assert (report.expired, report.garbage, report.damage, report.foreign) == ((), (), (), ())


def test_what_a_savepoint_alone_holds_is_what_becomes_free_when_it_goes(past):
    world = past()
    world.take("mine", savepoint=True)
    world.carried = 2
    for number in (6, 7, 8):
        world.take(f"r{number}")
    report = world.coordinator.cleaning.plan()
    (mine,) = [kept for kept in report.kept if kept.record.checkpoint_id == 5]
    before = {path for path in world.storage.files if "/op/" in path}
    world.coordinator.dispose("5")
    freed = before - {path for path in world.storage.files if "/op/" in path}
    assert mine.alone.files == len(freed) > 0
    assert mine.alone.bytes == 3 * len(freed)


def test_a_plan_says_what_a_cleaning_then_does_and_changes_nothing(past):
    world = past(retained=1, retained_for="7 d", undo_within="1 d")
    world.restore(2)
    world.take("r5")
    settle(world)
    world.clock.advance(8 * DAY)
    left_there(world, "p/chk-1/op/0-1-zombie.parquet")
    before = everything(world)
    planned = world.coordinator.cleaning.plan()
    assert everything(world) == before
    assert [record.checkpoint_id for record in planned.expired] == [1, 2, 3, 4]
    assert planned.freed == Cost(2, 6)  # of 3 and 4: the others' runs are carried
    assert planned.garbage == (Deletion("storage", "p/chk-1/op/0-1-zombie.parquet"),)
    assert planned.withdrawn_for_good == {"out": (3, 4)}
    assert "To be deleted: checkpoints that are too old, 1, 2, 3, 4, with 2 files (6 bytes)." in "".join(
        planned.lines()
    )
    done = world.coordinator.cleaning.clean()
    assert done == replace(planned, changed=True)
    assert "To be" not in "".join(done.lines())
    assert world.ids() == ([5], [])
    assert world.sink.withdrawn() == []
    assert {path for path in world.storage.files if "/op/" in path} == {
        f"p/chk-{number}/op/0-1-x.parquet" for number in (1, 2, 5)
    }
    assert not world.coordinator.cleaning.plan().garbage


# -- what was left behind


def test_files_that_were_left_long_after_their_checkpoint_ended_are_found(past):
    world = past(retained=2)
    world.ask("fails")
    world.snapshot(5)
    world.coordinator.abort(5, FailureReason.TASK_FAILURE, "enough")
    settle(world)
    left = left_there(
        world,
        "p/chk-1/op/0-1-zombie.parquet",  # discarded
        "p/chk-4/op/0-9-zombie.parquet",  # the latest
        "p/chk-5/op/.0-1-x.parquet.tmp",  # failed
    )
    world.sink.staged["_staging/chk-5/0-1-zombie.parquet"] = 5
    world.coordinator.clean()
    assert left <= world.storage.files.keys()
    report = world.coordinator.cleaning.clean()
    assert set(report.garbage) == {Deletion("storage", path) for path in left} | {
        Deletion(OUT, "_staging/chk-5/0-1-zombie.parquet")
    }
    assert left.isdisjoint(world.storage.files)
    assert world.sink.staged == {}
    assert world.restore(3).checkpoint.checkpoint_id == 3


def test_nothing_of_what_is_in_progress_is_touched(past):
    world = past(retained=2)
    settle(world)
    region = world.coordinator.start_region()
    world.ask("r5")
    mine = left_there(
        world,
        "p/chk-5/op/0-1-being-written.parquet",
        f"p/shared/{region.attempt}/op/0-1-being-written.parquet",
        "p/chk-6/op/0-1-not-begun.parquet",  # its number is given out next
    )
    world.sink.staged["_staging/chk-5/0-1-being-written.parquet"] = 5
    world.clock.advance(SWEEP_FOR.total_seconds() + 1)
    report = world.coordinator.cleaning.clean()
    assert report.garbage == ()
    assert mine <= world.storage.files.keys()
    assert list(world.sink.staged) == ["_staging/chk-5/0-1-being-written.parquet"]


def test_files_of_a_region_that_has_ended_are_found_and_of_its_successor_not(past):
    world = past()
    first = world.coordinator.start_region().attempt
    world.coordinator.end_region(first)
    settle(world)
    left = left_there(world, f"p/shared/{first}/op/0-1-zombie.parquet")
    second = world.coordinator.start_region().attempt
    mine = left_there(world, f"p/shared/{second}/op/0-1-mine.parquet")
    world.clock.advance(SWEEP_FOR.total_seconds() + 1)
    assert {deletion.path for deletion in world.coordinator.cleaning.clean().garbage} == left
    assert mine <= world.storage.files.keys()


def test_what_nobody_is_known_to_have_written_is_left_alone(past):
    world = past()
    settle(world)
    strange = left_there(world, "p/savepoints/mine/_metadata", "p/notes.txt", "p/chk-x/y", "q/chk-1/op/0-1-x.parquet")
    assert world.coordinator.cleaning.clean().garbage == ()
    assert strange <= world.storage.files.keys()


def reserve(world, upto):
    with world.store.transaction("p") as tx:
        tx.reserve_numbers(upto, 3, 9, world.clock.now())


def test_files_of_before_a_recovery_go_when_the_pipeline_has_gone_on_for_a_while(past):
    """Nobody knows their checkpoints; what carries their number cannot run any more."""
    world = past()
    reserve(world, 7)
    left = left_there(world, "p/chk-6/op/0-1-x.parquet", "p/shared/2/op/0-1-x.parquet")
    world.sink.staged["_staging/chk-6/0-1-x.parquet"] = 6
    settle(world)
    shared = {"p/shared/2/op/0-1-x.parquet"}
    assert {deletion.path for deletion in world.coordinator.cleaning.clean().garbage} == shared
    assert world.take("r8") == 8
    assert world.coordinator.cleaning.plan().garbage == ()
    world.clock.advance(SWEEP_FOR.total_seconds() + 1)
    gone = {deletion.path for deletion in world.coordinator.cleaning.clean().garbage}
    assert gone == left - shared | {"_staging/chk-6/0-1-x.parquet"}
    assert world.sink.staged == {}


def test_a_checkpoint_that_completed_and_that_the_database_does_not_know_is_named_and_kept(past):
    world = past()
    reserve(world, 7)
    left = left_there(world, "p/chk-6/op/0-1-x.parquet", metadata_path("p", 6), marker_path("p", 6))
    world.take("r8")
    settle(world)
    report = world.coordinator.cleaning.clean()
    assert (report.foreign, report.garbage) == ((6,), ())
    assert left <= world.storage.files.keys()
    assert "this database does not know, 6." in "".join(report.lines())


# -- damage


def test_damage_is_named_with_who_needs_it_and_nothing_is_changed(past):
    world = past(retained=3, retained_for="1 h")
    world.clock.advance(DAY)
    world.storage.files["p/chk-3/op/0-1-x.parquet"] = b"r0?"
    del world.storage.files[metadata_path("p", 2)]
    before = everything(world)
    report = world.coordinator.cleaning.clean()
    assert [(damage.path, damage.checkpoints) for damage in report.damage] == [
        ("p/chk-3/op/0-1-x.parquet", (3, 4)),
        ("p/chk-2/_metadata", (2,)),
    ]
    assert (report.safe, report.changed) == ([], False)
    assert "Checkpoints that need it: 3, 4." in report.damage_lines()[0]
    assert everything(world) == before


def test_what_is_free_of_damage_is_said(past):
    world = past(retained=3)
    world.storage.files["p/chk-4/op/0-1-x.parquet"] = b"r0?"
    report = world.coordinator.cleaning.plan()
    assert report.safe == [2, 3]
    assert report.damage_lines()[-1].startswith("No damage was found of checkpoints 2, 3. The tables are as they are.")


def test_metadata_that_is_not_what_was_committed_is_damage(past):
    world = past()
    path = metadata_path("p", 4)
    world.storage.files[path] = world.storage.files[path].replace(b'"periodic": false', b'"periodic": true')
    (damage,) = world.coordinator.cleaning.plan().damage
    assert (damage.path, damage.checkpoints) == (path, (4,))
    assert "is not what was committed" in damage.problem


def test_files_that_another_process_expires_meanwhile_are_no_damage(past, monkeypatch):
    world = past(retained=2)
    verify = world.storage.verify

    def meanwhile(files, in_full):
        monkeypatch.undo()
        world.carried = 0
        world.take("r5")
        world.take("r6")
        verify(files, in_full)

    monkeypatch.setattr(world.storage, "verify", meanwhile)
    report = world.coordinator.cleaning.plan()
    assert (report.damage, world.ids()) == ((), ([5, 6], []))


def test_a_cleaning_with_another_storage_is_refused(past):
    world = past()
    world.storage.files.clear()
    with pytest.raises(PipelineIdentityError, match="not on the checkpoint storage"):
        world.coordinator.cleaning.clean()


# -- in any company, and wherever it dies


def overdue(world):
    """Something of every kind to be cleaned, and a checkpoint in progress. Returns the files that are to stay."""
    first = world.take(f"after {world.clock.now()}")
    world.take("left behind")
    world.restore(first)
    latest = world.take(f"latest at {world.clock.now()}")
    settle(world)
    world.clock.advance(8 * DAY)
    going = world.ask(f"going at {world.clock.now()}").checkpoint_id
    world.snapshot(going)
    left_there(world, *(f"p/chk-{id_}/op/0-1-zombie.parquet" for id_ in range(1, latest)))
    world.sink.staged[f"_staging/chk-{first}/0-1-zombie.parquet"] = first
    subtasks = [known for id_ in (latest, going) for known in world.store.subtasks("p", id_).values()]
    runs = {handle.path for known in subtasks for handle in known.snapshot.handles if handle.kind is HandleKind.RUN}
    kept = {*runs, metadata_path("p", latest), marker_path("p", latest)}
    staged = f"_staging/chk-{going}/0-1-x.parquet"
    return latest, going, kept, [staged]


def check_clean(world, latest, kept, staged):
    assert world.ids() == ([latest], [])
    assert (world.storage.files.keys(), list(world.sink.staged)) == (kept, staged)
    assert world.sink.withdrawn() == []
    assert world.coordinator.cleaning.plan().damage == ()


@pytest.mark.parametrize(
    ("store", "before"),
    [("memory", True), ("memory", False), later("postgres", True), later("postgres", False)],
    indirect=["store"],
)
def test_wherever_it_dies_every_kept_checkpoint_is_whole_and_a_repeat_finishes(past, before):
    world, effects, at, died = past(**OVERDUE), Effects(), 0, True
    world.carried = 2
    while died:
        latest, going, kept, staged = overdue(world)
        world.coordinator = CheckpointCoordinator(
            world.pipeline, MortalTransactions(world.store, effects), Mortal(world.storage, effects, "delete"),
            world.clock,
        )  # fmt: skip
        effects.die(at, before)
        try:
            world.coordinator.cleaning.clean()
            died = False
        except Crash:
            world.reopen(world.store)
            world.clock.advance(60)  # a process that held a lease is dead
            assert kept <= world.storage.files.keys()
            assert not world.coordinator.cleaning.clean().damage
        world.reopen(world.store)
        check_clean(world, latest, kept, staged)
        world.coordinator.abort(going, FailureReason.TASK_FAILURE, "enough")
        at += 1
    assert at >= 12


def test_two_at_once_do_what_one_does(past):
    world = past(**OVERDUE)
    latest, _, kept, staged = overdue(world)
    other = CheckpointCoordinator(world.pipeline, world.store, world.storage, world.clock)
    cleaned = []

    class Between:
        """Before each deletion the other one cleans up as a whole."""

        def __getattr__(self, name):
            return getattr(world.storage, name)

        def delete(self, paths, closed=()):
            cleaned.append(other.cleaning.clean())
            world.storage.delete(paths, closed)

    world.coordinator = CheckpointCoordinator(world.pipeline, world.store, Between(), world.clock)
    world.coordinator.cleaning.clean()
    assert cleaned
    check_clean(world, latest, kept, staged)


def test_a_sink_that_cannot_list_its_staging_keeps_what_the_database_does_not_know(past):
    world = past()
    settle(world)
    world.sink.staged["_staging/chk-4/0-1-zombie.parquet"] = 4
    config, world.pipeline = world.pipeline.checkpoints, small_pipeline(Plain(world.sink))
    world.pipeline.checkpoints = config
    world.reopen(world.store)
    assert world.coordinator.cleaning.clean().garbage == ()


class Plain:
    """A sink without the ability of a `StagingSink`."""

    def __init__(self, sink):
        self._sink = sink

    def __getattr__(self, name):
        if name == "staged_checkpoints":
            raise AttributeError(name)
        return getattr(self._sink, name)
