"""What was left behind and is found by `tidegate clean`, in any company, and wherever it dies. On every store."""

import pytest
from cleanings import DAY, left_there, past_of_four, settle
from sizes import later
from worlds import Crash, small_pipeline

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.cleaning.retention import SWEEP_FOR
from tidegate.protocol.facts.paths import marker_path, metadata_path
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import Deletion, HandleKind
from tidegate.testing.effects import Effects, Mortal, MortalTransactions

OUT = "sink:out-sink"
OVERDUE = {"retained": 1, "retained_for": "7 d", "undo_within": "1 d", "timeout": "30 d"}


@pytest.fixture
def past(store):
    return lambda **config: past_of_four(store, **config)


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


@pytest.mark.parametrize("unknown", [6, 60])
def test_a_checkpoint_that_completed_and_that_the_database_does_not_know_keeps_everything(past, unknown):
    """It was left out by a recovery; or the database is an older one than the storage."""
    world = past()
    reserve(world, 7)
    world.take("r8")
    settle(world)
    left = left_there(
        world,
        "p/chk-4/op/0-compacted-x.parquet",  # which it refers to, as far as anybody knows
        f"p/chk-{unknown}/op/0-1-x.parquet",
        metadata_path("p", unknown),
        marker_path("p", unknown),
    )
    report = world.coordinator.cleaning.clean()
    assert (report.foreign, report.garbage) == ((unknown,), ())
    assert left <= world.storage.files.keys()
    assert f"Checkpoints {unknown} have completed on the storage" in "".join(report.lines())


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
