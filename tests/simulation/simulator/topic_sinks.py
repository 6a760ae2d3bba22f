"""Topics as sinks of a simulated scheduled pipeline: after the commit, and no restore takes them back."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from simulator.brokers import Brokers
from simulator.kafka import Kafka
from simulator.sinks import FULL, SimulatedSink
from simulator.sources import Row
from simulator.temper import CALM, Temper
from simulator.topics import Topic
from tidegate.kafka.markers import Slot
from tidegate.kafka.transactions import Work
from tidegate.ports import CommitAttempt, SinkInput
from tidegate.protocol.facts.errors import SinkError, StateIntegrityError
from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.recovery.ownership import Owner
from tidegate.protocol.steps.sink_marks import gone_first

if TYPE_CHECKING:
    from simulator.world import World

#: Chosen so that seeds which alone are known to notice a rare planted mistake draw the sinks that they always drew.
_SALT, _TABLES_SALT = 3291, 99


def has_topics(seed: int) -> bool:
    """Of a stream of its own, so that the rest stays as it was drawn."""
    return Random(f"topics {_SALT} {seed}").random() < 0.12 or has_tables(seed)


def has_tables(seed: int) -> bool:
    """Whether topics get upserts."""
    return Random(f"topic tables {_TABLES_SALT} {seed}").random() < 0.04


def is_drawn(world: "World", name: str) -> bool:
    return has_topics(world.seed) and Random(f"{name} {world.seed}").random() < 0.9


def with_commits(seed: int, temper: Temper) -> Temper:
    """Of everything else less goes wrong where there are topics, so that there are many commits in trouble."""
    if not has_topics(seed):
        return temper
    rare = {
        name: getattr(temper, name) / 8
        for name in ("crash", "storage_error", "store_unavailable", "impatience", "leap")
    }
    rescale = temper.rescale if has_tables(seed) else 0.0
    return replace(temper, **rare, decline=0.0, rejection=0.0, lost_write=0.0, lost_report=0.0, rescale=rescale)


def with_more(seed: int, number: int, pieces: list[list[list[Row]]]) -> list[list[list[Row]]]:
    """Input of a source, of which something is left for many checkpoints."""
    draws = Random(f"more {seed} {number}")
    more = range(draws.choice([2, 5]) if has_topics(seed) else 0)
    return [[*split, *([(draws.randrange(12), draws.randrange(1000))] for _ in more)] for split in pieces]


def kafka_of(world: "World") -> Kafka:
    draws = Random(f"kafka {world.seed}")
    worst, stalls = draws.choice([0.0, 0.05, 0.2]), draws.choice([0.02, 0.1])

    def step(what: str) -> None:
        process = world.scheduler.current
        if process is not None and world.temper != CALM and draws.random() < stalls:
            process.stalled = process.hangs = True
        world.point(what)

    brokers, trouble = Brokers(lambda: world.clock.time), lambda: 0.0 if world.temper == CALM else worst
    return Kafka(brokers, step, world.die, world.clock, draws, trouble)


class TopicSink(SimulatedSink):
    """`ports.GroupedSink`: those of a pipeline are committed together."""

    group = "topics"
    rewind = shown_outside = withdrawn = delete_withdrawn = None  # type: ignore[assignment]

    def __init__(self, world: "World", name: str, input: SinkInput, root: str = "") -> None:
        super().__init__(world, name, input, root)
        self.merges = False
        partitions = Random(f"topic {world.seed} {self.root}").choice([1, 1, 2, 3])
        slot = Slot(world.pipeline_id, name, self.root)
        upserts = input is SinkInput.UPSERTS
        partitions = 1 if upserts else partitions  # else those of a key would have to be in one
        self.topic = Topic(world.kafka, slot, partitions, lambda: world.store.state.committer, upserts)

    # -- what is there

    def rows(self) -> list[Row]:
        return self.topic.visible(self.topic.found)

    def is_right(self, expected: Sequence[Row]) -> bool:
        """Readers have all that counts, and besides what counts no more."""
        return self.topic.visible(self.world.observer.history.branch_in(self.world.store.state)) == expected

    def put_away(self) -> dict[int, dict[str, Any]]:
        return {}

    def check(self) -> None:
        promised = {id_: rows[self.name] for id_, rows in self.world.comparison.promised.items()}
        checkpoints = self.world.store.state.checkpoints
        self.topic.check(promised, [id_ for id_, each in checkpoints.items() if each.notified_at is not None])

    def numbers(self) -> tuple[int, int]:
        return max([*self.staged_checkpoints(), *self.topic.found], default=0), 0

    # -- after the commit

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        self.commit_group(checkpoint_id, [(self, staged)], attempt)

    def commit_group(
        self,
        checkpoint_id: int,
        members: Sequence[tuple["TopicSink", Sequence[StateHandle]]],
        attempt: CommitAttempt,
    ) -> None:
        """See `ports.GroupedSink`."""
        if self.world.strikes("sink_error"):
            raise SinkError(FULL)
        for sink, staged in members:
            self.world.messages.tells(sink, checkpoint_id, staged)
        works = [sink.work(checkpoint_id, staged) for sink, staged in members]
        always = any(sink.topic.upserts for sink, _ in members)
        self.topic.commit(works, checkpoint_id, attempt, always)
        for sink, _ in members:
            self.world.messages.told(sink, checkpoint_id)
        self.world.point(f"has committed chk-{checkpoint_id} to {len(members)} topics")

    def work(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Work:
        def rows() -> Iterator[Row]:
            for handle in gone_first(staged):
                self.world.point(f"reads {handle.path} of {self.name}")
                if not self.is_whole(handle):
                    raise StateIntegrityError(f"{handle.path} is not what was staged")
                yield from self.staged[handle.path]

        return self.topic.work(checkpoint_id, rows, sum(handle.rows for handle in staged))

    # -- whose it is

    def mark(self, owner: Owner) -> Owner:
        self.topic.take(owner)
        return super().mark(owner)

    def mark_anew(self, owner: Owner) -> None:
        self.topic.take(owner, anew=True)
        super().mark_anew(owner)

    def is_used(self) -> bool:
        return super().is_used() or bool(self.topic.found)
