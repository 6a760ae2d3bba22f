"""Files of a source that are corrected after they were read, and people who have them taken as they are now, with the
way back. What each file was when it was read is on record, and is held against what it is.
"""

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from simulator.history import Moment
from simulator.scheduler import Violation, require
from simulator.sources import DirectorySource
from simulator.upserting import left_as_they_are
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.protocol.facts.branches import Restore
from tidegate.protocol.facts.errors import RestoreRefusedError, StateIntegrityError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import SubtaskId
from tidegate.protocol.recovery.restore_plan import Accepted

if TYPE_CHECKING:
    from memory_state import PipelineState

    from simulator.world import World

Pieces = tuple[tuple[int, int], ...]  # of one source: split and number


@dataclass(frozen=True, slots=True)
class BeforeRead(ToCheckpoint):
    """Where somebody goes back to, so that these pieces are read anew."""

    source: str
    pieces: Pieces


class Corrections:
    """Of one run: whether there are any, how many are still to come, and how often files were taken anew. Draws of its
    own, so that the rest stays as it was drawn."""

    def __init__(self, world: "World") -> None:
        self.random = random = Random(f"replacing {world.seed}")
        other = world.drawn.forking or world.drawn.changes or world.drawn.saving
        there = any(isinstance(source, DirectorySource) for source in world.sources.values())
        self.drawn = there and not other and random.random() < 0.5
        self.left = random.choice([1, 2, 3])
        self.replaced = 0


def let_people_correct(world: "World") -> None:
    """Somebody corrects what was read, or has what differs from what was read taken as it is."""
    if not world.corrections.drawn:
        return
    random, now = world.corrections.random, world.observer.history.now
    if (found := differing(world, now)) is not None:
        if random.random() < 0.2:
            world.spawn("somebody:source replace", lambda: replace(world, *found))
        return
    source = random.choice([s for s in world.sources.values() if isinstance(s, DirectorySource)])
    read = [(split, n) for split in range(source.num_splits()) for n in now.read.get(SubtaskId(source.name, split), ())]
    if world.corrections.left and read and random.random() < 0.15:
        world.corrections.left -= 1
        recent = [each for each in read if _way_back(world, world.store.state, source.name, (each,)) is not None]
        read = recent if recent and random.random() < 0.9 else read
        chosen = tuple(sorted(random.sample(read, min(len(read), random.choice([1, 1, 2])))))
        world.spawn("somebody:correction", lambda: _correct(world, source, chosen))


def differing(world: "World", moment: Moment) -> tuple[DirectorySource, Pieces] | None:
    """A source with pieces that are not what was read of them."""
    for source in world.sources.values():
        if isinstance(source, DirectorySource):
            read = {(s, n): v for s in range(source.num_splits()) for n, v in _read(source, moment, s)}
            if pieces := tuple(piece for piece, version in read.items() if source.version(*piece) != version):
                return source, pieces
    return None


def _read(source: DirectorySource, moment: Moment, split: int) -> list[tuple[int, int]]:
    return sorted(moment.read.get(SubtaskId(source.name, split), {}).items())


def _correct(world: "World", source: DirectorySource, pieces: Pieces) -> None:
    for piece in pieces:
        world.point(f"corrects {source.name_for(*piece)} of {source.name}")
        source.correct(*piece)
    world.point("has corrected what was read")
    replace(world, source, pieces)


def replace(world: "World", source: DirectorySource, pieces: Pieces) -> None:
    """`tidegate source replace`. Where there is no way back, the files are put back as they were."""
    coordinator, process = world.open_coordinator(), world.scheduler.current
    names = [source.name_for(*piece) for piece in pieces]
    facts = _facts(world)
    try:
        planned = coordinator.replacing.plan(source.name, names)
        world.point("has read the plan of a replacement")
        others = _others(world, source, pieces)
        world.observer.wanted[process] = BeforeRead(planned.target.checkpoint_id, source.name, pieces)
        coordinator.restore(
            planned.target, Accepted(skip_missing_files=others, leave=left_as_they_are(world)), planned.restore
        )
        world.corrections.replaced += 1
    except StateIntegrityError as error:
        raise Violation(f"a replacement of {names} calls damage what another process did: {error}") from error
    except RestoreRefusedError as error:
        if _facts(world) == facts:
            _check_refusal(world, source, pieces, error)
        if "No checkpoint or savepoint" in str(error):
            _put_back(world, source, pieces)
        raise


def _facts(world: "World") -> object:
    """What decides about a replacement. Where this has changed meanwhile, a refusal may be right."""
    state = world.store.state
    versions = [dict(s.present) for s in world.sources.values() if isinstance(s, DirectorySource)]
    return {id_: record.status for id_, record in state.checkpoints.items()}, len(state.restores), versions


def _others(world: "World", source: DirectorySource, pieces: Pieces) -> bool:
    """Whether anything else differs from what was ever read of it."""
    mine = {(source.name, *piece) for piece in pieces}
    directories = [s for s in world.sources.values() if isinstance(s, DirectorySource)]
    return any((s.name, *piece) not in mine for s in directories for piece in s.versions)


def _check_refusal(world: "World", source: DirectorySource, pieces: Pieces, error: RestoreRefusedError) -> None:
    history = world.observer.history
    latest = history.moments[history.latest_id(world.store.state)]
    read = {(split, n): version for split, n in pieces for m, version in _read(source, latest, split) if m == n}
    unread = len(read) < len(pieces)
    same = any(source.version(*piece) == version for piece, version in read.items())
    none = _way_back(world, world.store.state, source.name, pieces) is None
    require(unread or same or none, f"a replacement of {pieces} of {source.name} is refused without need: {error}")


def _way_back(world: "World", state: "PipelineState", source: str, pieces: Pieces) -> int | None:
    """The newest checkpoint that is kept, counts and has read none of them."""
    history = world.observer.history
    kept = [id_ for id_ in history.branch_in(state) if state.checkpoints[id_].status is Status.COMPLETED]
    moments = [history.moments[id_] for id_ in kept]
    before = [m for m in moments if not any(n in m.read.get(SubtaskId(source, split), ()) for split, n in pieces)]
    return max((moment.checkpoint_id for moment in before), default=None)


def check_way_back(world: "World", before: "PipelineState", restore: Restore, target: BeforeRead) -> None:
    """What is to be read anew is taken out, and nothing more than must be."""
    expected = _way_back(world, before, target.source, target.pieces)
    what = f"{target.pieces} of {target.source} are to be read anew"
    require(restore.checkpoint_id == expected, f"{what}, but not from {expected} on: {restore}")


def _put_back(world: "World", source: DirectorySource, pieces: Pieces) -> None:
    """As it was read by what counts now."""
    for split, number in pieces:
        for known, version in _read(source, world.observer.history.now, split):
            if known == number:
                world.point(f"puts {source.name_for(split, number)} back")
                source.present[split, number] = version
    world.point("has put files back")


def settle(world: "World") -> None:
    """In peace. Nobody can go on while a file is not what was read."""
    while (found := differing(world, world.observer.history.now)) is not None:
        try:
            replace(world, *found)
        except RestoreRefusedError as error:
            world.note(f"{type(error).__name__}: {error}")
            require("No checkpoint or savepoint" in str(error), f"in peace, a replacement is refused: {error}")


def check_corrected(world: "World") -> None:
    """In the end every file counts as it is."""
    found = differing(world, world.observer.history.now)
    require(found is None, f"what was read is not what is there: {found and (found[0].name, found[1])}")
