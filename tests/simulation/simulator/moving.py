"""The database is lost, and perhaps the checkpoint storage: a pipeline goes on from a savepoint's directory in an empty
database, restored by people who try again until it holds.
"""

from typing import TYPE_CHECKING

from simulator.cleaning import clean
from simulator.file_sinks import can_go_back
from simulator.savepoints import FromDirectory, draw_directory, restore_from
from simulator.storage import SavedDirectory
from simulator.store import SimulatedStore
from simulator.temper import CALM
from tidegate.protocol.facts.errors import PipelineIdentityError
from tidegate.protocol.facts.lifecycle import Status

if TYPE_CHECKING:
    from simulator.world import World

MOST_TRIES = 10


def move(world: "World") -> bool:
    """False: there is no directory to go on from."""
    complete = [directory for directory in world.storage.others.values() if directory.is_complete]
    among = [directory for directory in complete if _has_its_tables(world, directory)]
    if not among:
        return False
    target = draw_directory(world, among)
    _lose_the_database(world, world.storage.elsewhere(target.url).savepoint)
    for _ in range(MOST_TRIES):
        _try(world, target)
        if world.store.state.checkpoints:
            return True
    restore_from(world, target)
    return True


def _has_its_tables(world: "World", directory: SavedDirectory) -> bool:
    """Rows that it rests on were not withdrawn and deleted: they are not in the directory."""
    record = world.store.state.checkpoints[directory.savepoint]
    present = directory.savepoint in world.observer.history.now.branch
    rows_stay = present or record.status is Status.COMPLETED
    return record.notified_at is not None and rows_stay and can_go_back(world.sinks, directory.savepoint)


def _lose_the_database(world: "World", savepoint: int) -> None:
    """What still ran is stopped first. Directories are their owner's from now on."""
    lost, keeps_storage = world.store.state, world.aside.random() < 0.5
    tables = world.store.database.tables
    world.store = SimulatedStore(world)
    world.store.database.tables = tables  # brought back from a copy, as they were
    world.forks = []
    world.observer.history.forget(savepoint, lost.checkpoints)
    world.comparison.sequential.go_on_from(*world.observer.history.started())
    world.messages.forget(world.observer.history.lost)
    if keeps_storage:
        world.foreign = {*world.storage.files, *(path for sink in world.sinks.values() for path in sink.staged)}
    else:
        world.storage.files.clear()
    for directory in world.storage.others.values():
        directory.is_owners = True
    world.tell(f"the database is lost{'' if keeps_storage else ', and the checkpoint storage'}")


def _clean(world: "World") -> None:
    """Until the pipeline is restored, its tables are those of a database that is gone, and nobody cleans there."""
    try:
        clean(world)
    except PipelineIdentityError as error:
        world.note(f"{type(error).__name__}: {error}")


def _try(world: "World", target: FromDirectory) -> None:
    """With as much trouble as before, beside somebody who does the same, or cleans up."""
    world.temper = world.drawn
    world.spawn("somebody:restore into the empty database", lambda: restore_from(world, target))
    if world.aside.random() < 0.3:
        world.spawn("another:restore into the empty database", lambda: restore_from(world, target))
    if world.aside.random() < 0.3:
        world.spawn("somebody:tidegate clean", lambda: _clean(world))
    world.scheduler.run()
    world.temper = CALM
