"""What becomes of topics that are read: people change the number of splits, retention deletes records that were not
read, and people skip what is lost.

A skip is held against the records that are gone, and counts for what goes on from its checkpoint alone.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from simulator.graphs import rebuilt
from simulator.scheduler import require
from simulator.stops import has_finished
from simulator.topic_sources import TopicSource, loses_records
from tidegate.protocol.facts.errors import SkipRefusedError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason

if TYPE_CHECKING:
    from memory_state import PipelineState

    from simulator.world import World


def let_topics_change(world: "World") -> None:
    """Now and then."""
    for source in _topics(world):
        draws = source.changes
        if source.resplits and draws.random() < 0.05 and not _drains(world):
            _resplit(world, source)
        if not loses_records(world) or world.observer.history.latest_id(world.store.state) == 0:
            continue
        if _has_lost(world, source):
            if draws.random() < 0.2:
                world.spawn("somebody:source skip", lambda source=source: _skip(world, source))
        elif source.deletions and draws.random() < 0.1:
            _delete(world, source)


def skip_in_peace(world: "World") -> None:
    """Nobody goes on while a source has lost records that were not read."""
    for source in _topics(world):
        while _has_lost(world, source) and not has_finished(world.store.state):
            for id_, record in world.store.state.checkpoints.items():
                if record.status is Status.IN_PROGRESS:
                    world.open_coordinator().abort(id_, FailureReason.COORDINATOR_SUSPEND, "it cannot go on")
            world.open_coordinator().skip(source.name)


def _topics(world: "World") -> list[TopicSource]:
    return [source for source in world.sources.values() if isinstance(source, TopicSource)]


def _drains(world: "World") -> bool:
    """Whether anybody has asked to read no more: splits that have finished keep their number."""
    return any(request.drain for request in world.requests.values())


def _resplit(world: "World", source: TopicSource) -> None:
    changed = source.with_splits(source.changes.choice([1, 2, 3, 4]))
    world.sources[source.name] = changed
    world.pipeline = rebuilt(
        world.pipeline, lambda vertex: replace(vertex, source=changed) if vertex.name == source.name else vertex
    )
    world.tell(f"from now on {source.name} has {changed.splits} splits")


# -- retention


def _delete(world: "World", source: TopicSource) -> None:
    """Records of a partition from its first on, mostly some that were not read."""
    read, draws, logs = _read_up_to(world, source, world.store.state), source.changes, source.producers.logs
    unread = [each for each, offset in read.items() if offset < logs[each].stable]
    if unread and draws.random() < 0.8:
        partition = draws.choice(unread)
        end = draws.randint(read[partition] + 1, logs[partition].stable)
    else:
        partition = draws.choice(sorted(read))
        end = draws.randint(logs[partition].first, logs[partition].stable)
    source.deletions -= 1
    logs[partition].first = max(logs[partition].first, end)
    world.tell(f"{source.topic}/{partition} begins with {logs[partition].first}, and was read up to {read[partition]}")


def _read_up_to(world: "World", source: TopicSource, state: "PipelineState") -> dict[int, int]:
    """By partition, where the next checkpoint goes on. Those that were there from the start are meant: what another one
    has lost before it was found is not missed."""
    id_ = world.observer.history.latest_id(state)
    positions = [
        known.snapshot.position for each, known in state.subtasks[id_].items() if each.operator_id == source.name
    ]
    offsets = {int(p): offset for each in positions if each for p, offset in each["to"]["offsets"].items()}
    return {each: source.producers.goes_on.get((id_, each), offsets[each]) for each in range(source.producers.at_first)}


def _has_lost(world: "World", source: TopicSource) -> bool:
    if world.observer.history.latest_id(world.store.state) == 0:
        return False
    logs = source.producers.logs
    return any(offset < logs[each].first for each, offset in _read_up_to(world, source, world.store.state).items())


def _skip(world: "World", source: TopicSource) -> None:
    """`tidegate source skip`."""
    coordinator = world.open_coordinator()
    try:
        plan = coordinator.skipping.plan(source.name)
        world.point("has read the plan of a skip")
        coordinator.skip(source.name, plan)
    except SkipRefusedError as error:
        world.note(f"{type(error).__name__}: {error}")


def check_skips(world: "World", before: "PipelineState", after: "PipelineState") -> None:
    """After every commit: what is skipped is gone, all of it and no more, and nothing of it was read."""
    latest, read = world.observer.history.latest_id(after), dict[str, dict[int, int]]()
    for skip in after.skips[len(before.skips) :]:
        source = next(each for each in _topics(world) if each.name == skip.source)
        require(skip.checkpoint_id == latest, f"what is lost after checkpoint {latest} is skipped after {skip}")
        offsets = read.setdefault(skip.source, _read_up_to(world, source, after))
        for rows in skip.lost:
            partition, first = int(rows.part), source.producers.logs[int(rows.part)].first
            require(rows.first == offsets[partition], f"{skip.source} was read up to {offsets}, and skips {rows}")
            is_gone = rows.last is not None and rows.last + 1 == rows.next and rows.next <= first
            require(is_gone, f"{skip.source}/{partition} begins with {first}, and skips {rows}")
            source.producers.skip(latest, max(after.checkpoints), partition, rows.first, rows.next or 0)
