"""Planted mistakes in the reading of topics."""

from dataclasses import replace

from confluent_kafka import IsolationLevel, TopicPartition

from mutations.planting import mutation
from tidegate.kafka import polls, source
from tidegate.kafka.topic_queries import TopicQueries
from tidegate.sources.range_source import RangeSource


@mutation("a topic is read up to its high watermark", (TopicQueries, "_offsets"))
def _(original):
    def offsets(self, partitions, spec):
        asked = {TopicPartition(self._topic.name, each): spec for each in partitions}
        return self._admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=1)

    return offsets


@mutation("a partition that is found later is read from its end", (polls, "begin"))
def _(original):
    def begin(topic, position, found, starts):
        begun = original(topic, position, found, starts)
        if position is None:
            return begun
        new = {each: bounds.end for each, bounds in found.partitions.items() if each not in position.offsets}
        return replace(begun, offsets={**begun.offsets, **new}, began={**begun.began, **new})

    return begin


@mutation("a replay of a topic asks for its ends anew", (RangeSource, "replay"))
def _(original):
    def replay(self, split, restored, taken, storage):
        if not isinstance(self, source.KafkaSource) or taken.position is None:
            return original(self, split, restored, taken, storage)
        start = taken.position["from"]
        return self._segment({**taken.position, "to": self.latest(split, start)})

    return replay


@mutation("a position of a topic drops partitions to which nothing has come", (polls, "bounded"))
def _(original):
    def bounded(begins, ends, limit):
        polled = original(begins, ends, limit)
        return replace(polled, offsets={each: at for each, at in polled.offsets.items() if at > begins[each]})

    return bounded


@mutation("a checkpoint reads a topic from where the first one began", (source, "ranges_between"))
def _(original):
    return lambda start, end: original(None, end)


@mutation("each split reads all partitions of its topic", (source, "is_of"))
def _(original):
    return lambda partition, split, splits: True


@mutation("what two Spark tasks read of a partition overlaps", (source, "pieces_of"))
def _(original):
    return lambda ranges, most: [(each, start, end + (end > start + 1)) for each, start, end in original(ranges, most)]
