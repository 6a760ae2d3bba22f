"""Planted mistakes around topics that have the rows of each checkpoint by one transaction."""

from itertools import count

from mutations.planting import mutation
from tidegate.coordination.steps import notify
from tidegate.coordination.steps.sink_groups import SinkGroup
from tidegate.kafka import markers, transactions
from tidegate.kafka.markers import TOPIC, Markers
from tidegate.kafka.transactions import Transaction


class Unconfirmed:
    """An attempt that is not confirmed the one time when it should be."""

    def __init__(self, attempt, skipped):
        self._attempt, self._skipped, self._times = attempt, skipped, count(1)
        self.number, self.keep = attempt.number, attempt.keep

    def confirm(self):
        if next(self._times) != self._skipped:
            self._attempt.confirm()


def _writes_unconfirmed(skipped):
    def make(original):
        def write(writing, brokers, topic, works, checkpoint_id, attempt):
            return original(writing, brokers, topic, works, checkpoint_id, Unconfirmed(attempt, skipped))

        return write

    return make


mutation(
    "an attempt that has fenced all others does not look whether it was overtaken itself", (transactions, "_write")
)(_writes_unconfirmed(1))
mutation("an attempt that was overtaken while it wrote to topics commits", (transactions, "_write"))(
    _writes_unconfirmed(2)
)


@mutation(
    "what a topic has of a sink is marked in a transaction of its own",
    (Transaction, "produce"),
    (Transaction, "commit"),
)
def _(original):
    if original.__name__ == "produce":

        def produce(self, topic, record, keep):
            if topic == TOPIC and hasattr(self, "_held"):
                self._held.append(record)
                return None
            self._held = []
            return original(self, topic, record, keep)

        return produce

    def commit(self):
        original(self)
        for record in getattr(self, "_held", ()):
            self.begin()
            self._producer.produce(TOPIC, record.value, record.key, on_delivery=self._delivered)
            original(self)

    return commit


@mutation("nobody looks whether a topic has a checkpoint already", (Markers, "has"))
def _(original):
    return lambda self, slot, checkpoint_id: False


@mutation("marks of transactions that were aborted count", (markers, "_read"))
def _(original):
    return lambda brokers, topic, refusals, isolation, start, see: original(
        brokers, topic, refusals, "read_uncommitted", start, see
    )


@mutation("an attempt that was fenced gives up for good", (transactions, "FENCED"))
def _(original):
    return set()


@mutation("topics of a pipeline have a transaction each", (notify, "in_groups"))
def _(original):
    return lambda sinks: [SinkGroup([vertex], [staged]) for vertex, staged in sinks]


@mutation("a marker behind an open transaction is passed over", (Markers, "is_decided"))
def _(original):
    return lambda self, slot: True
