"""Topics of a simulated scheduled pipeline that get upserts: who keeps the last record of each key has what an
operator's state has.
"""

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from simulator.sources import Row
from simulator.topic_sinks import TopicSink, has_tables

if TYPE_CHECKING:
    from simulator.world import World


def is_drawn(world: "World", name: str) -> bool:
    """Not where pipelines are forked or taken to another database, whose first checkpoint writes to another topic."""
    other = world.drawn.saving or world.drawn.changes or world.drawn.forking
    return has_tables(world.seed) and not other and Random(f"topic table {world.seed} {name}").random() < 0.8


class TopicTable(TopicSink):
    """`ports.PositionedSink` of `SinkInput.UPSERTS`. No restore takes it back: it has what was there before until the
    next checkpoint, which gives it all rows. Keys that are only in what was left behind stay."""

    def shown_checkpoint(self) -> int | None:
        return self.topic.marked()

    def rows(self) -> list[Row]:
        return sorted(self.topic.table().items())

    def is_right(self, expected: Sequence[Row]) -> bool:
        history, table, state = self.world.observer.history, self.topic.table(), self.world.store.state
        if history.returns and history.latest_id(state) <= history.returns[-1].newest:
            return True
        stay = self._left_behind() - dict(expected).keys()
        return sorted((key, value) for key, value in table.items() if key not in stay) == expected

    def _left_behind(self) -> set[int]:
        """The keys that were left behind by a restore, and that the checkpoint to which it led does not have."""
        history = self.world.observer.history
        keys = set[int]()
        for each in history.returns:
            there = dict(history.moments[each.checkpoint_id].outputs[self.name])
            left = [id_ for id_ in self.topic.found if each.checkpoint_id < id_ <= each.newest]
            keys |= {key for id_ in left for key, _ in self.topic.rows_of(id_)} - there.keys()
        return keys
