"""Topics as sinks of a simulated continuous run: after the commit, and no restore takes them back."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from worlds import Crash

from simulator.brokers import Brokers
from simulator.kafka import Kafka
from simulator.running_tables import Table
from simulator.topics import Topic
from tidegate.kafka.markers import Slot
from tidegate.kafka.transactions import Work
from tidegate.ports import CommitAttempt, SinkInput
from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.recovery.ownership import Owner
from tidegate.protocol.steps.sink_marks import gone_first

if TYPE_CHECKING:
    from simulator.running import Running

#: Chosen so that seeds which alone are known to notice a rare planted mistake draw the sinks that they always drew.
_SALT, _TABLES_SALT = 959, 120


def has_topics(seed: int) -> bool:
    """Of a stream of its own, so that the rest stays as it was drawn."""
    return Random(f"topics running {_SALT} {seed}").random() < 0.12 or has_tables(seed)


def has_tables(seed: int) -> bool:
    """Whether there is a topic of upserts, behind an operator whose rows expire."""
    return Random(f"topic tables running {_TABLES_SALT} {seed}").random() < 0.06


def is_drawn(world: "Running", name: str) -> bool:
    return has_topics(world.seed) and Random(f"{name} {world.seed}").random() < 0.8


def with_commits(world: "Running") -> None:
    """Rows arrive slowly where there are topics, and checkpoints follow each other, so that there are many commits in
    trouble."""
    if has_topics(world.seed):
        world.haste, world.trouble = 0.1, 0.002
        world.config = replace(world.config, interval="3 s", min_pause="0 s")
        for source in world.sources:
            source.step = 1
            source.lengths = [2 * length for length in source.lengths]


class TopicTable(Table):
    """`ports.GroupedSink`: those of a pipeline are committed together."""

    group = "topics"
    rewind = shown_outside = withdrawn = delete_withdrawn = None  # type: ignore[assignment]

    def __init__(self, world: "Running", name: str, input: SinkInput = SinkInput.CHANGES) -> None:
        super().__init__(input, world.effect)
        self._world = world
        upserts = input is SinkInput.UPSERTS
        partitions = 1 if upserts else Random(f"topic running {world.seed} {name}").choice([1, 1, 2, 3])
        slot, state = Slot("running", name, name), lambda: world.store.state.committer
        self.topic = Topic(world.kafka, slot, partitions, state, upserts)
        self._is_marked = False

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        self.commit_group(checkpoint_id, [(self, staged)], attempt)

    def commit_group(
        self,
        checkpoint_id: int,
        members: Sequence[tuple["TopicTable", Sequence[StateHandle]]],
        attempt: CommitAttempt,
    ) -> None:
        """See `ports.GroupedSink`."""
        self._fails("commits to topics")
        works = [sink.work(checkpoint_id, staged) for sink, staged in members]
        self.topic.commit(works, checkpoint_id, attempt, any(sink.topic.upserts for sink, _ in members))
        for sink, _ in members:
            sink.told.add(checkpoint_id)
        self.trouble("has committed to topics")

    def work(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Work:
        if not self._is_marked:
            self.topic.take(Owner("running", self.topic.slot.sink, "database"))
            self._is_marked = True
        rows = [tuple(row) for rows in self._rows(gone_first(staged)) for row in rows]
        return self.topic.work(checkpoint_id, lambda: iter(rows), len(rows))

    def shown_checkpoint(self) -> int | None:
        """See `ports.PositionedSink`."""
        return self.topic.marked()

    def upserted(self) -> dict[Any, Any]:
        return self.topic.table()

    def left_behind(self) -> set[int]:
        """The keys of checkpoints that a restore has left behind: they may stay."""
        return {key for id_ in self.away for key, _ in self.topic.rows_of(id_)}

    def check(self, staged: Mapping[int, Mapping[str, list[list[Any]]]], present: Collection[int]) -> None:
        """After every commit. `staged`: by completed checkpoint and sink, its files."""
        name, checkpoints = self.topic.slot.sink, self._world.store.state.checkpoints
        promised = {id_: [tuple(row) for file in files[name] for row in file] for id_, files in staged.items()}
        self.topic.check(promised, [id_ for id_, each in checkpoints.items() if each.notified_at is not None])
        found = {id_: [self.topic.rows_of(id_)] for id_ in self.told | self.topic.found.keys()}
        self.visible = {id_: rows for id_, rows in found.items() if id_ in present}
        self.away = {id_: rows for id_, rows in found.items() if id_ not in present}


def kafka_of(world: "Running") -> Kafka:
    """Brokers, where another process may take over at each effect, before this one goes on."""
    draws = Random(f"kafka running {world.seed}")
    worst, overtaken = draws.choice([0.0, 0.05, 0.2]), draws.choice([0.05, 0.2])

    def step(what: str) -> None:
        world.tell(what)
        if world.strikes(1):
            die("there")
        if world.trouble and draws.random() < overtaken:
            world.overlapping.notify(world)

    def die(what: str) -> None:
        world.tell(f"dies {what}")
        raise Crash(what)

    return Kafka(Brokers(world.clock.now), step, die, world.clock, draws, lambda: worst if world.trouble else 0.0)
