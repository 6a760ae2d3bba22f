"""Transactions that commit, abort or stay open, partitions that are added, splits that change, and a reader that dies
and is restored: each record is read once. Mistakes that somebody could make there, each planted, and each noticed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import IsolationLevel
from kafka_brokers import Broker
from topic_lives import TopicReader, live, values

from tidegate.kafka import polls, reading, rows, source, topic_queries
from tidegate.kafka.topic_queries import TopicQueries
from tidegate.protocol.facts.errors import CheckpointError, SourceChangedError

SEEDS = range(1, 6)


def live_all(broker: Broker) -> None:
    for seed in SEEDS:
        live(broker, seed)


def live_and_lose(broker: Broker) -> None:
    live_all(broker)
    lose(broker)


def lose(broker: Broker) -> None:
    """Retention deletes what was not read."""
    reader = TopicReader(broker.topic())
    broker.produce(reader.topic, values(1, 2))
    reader.poll()
    broker.produce(reader.topic, values(3, 4))
    broker.forget(reader.topic, 0, 3)
    try:
        reader.poll()
    except SourceChangedError:
        return
    raise AssertionError("What was lost is passed over.")


def test_each_record_is_read_once(broker: Broker) -> None:
    live_and_lose(broker)


def the_high_watermark(original: Any) -> Any:
    return lambda self, partitions, spec: self._admin.list_offsets(
        {topic_queries.TopicPartition(self._topic.name, each): spec for each in partitions},
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
    )


def from_their_ends(original: Any) -> Any:
    """New partitions are read from what arrives after they were found."""

    def begin(topic: Any, position: Any, found: Any, starts: Any) -> Any:
        if position is not None:
            new = {each: bounds.end for each, bounds in found.partitions.items() if each not in position.offsets}
            position = replace(position, offsets={**position.offsets, **new}, began={**position.began, **new})
        return original(topic, position, found, starts)

    return begin


def asking_start_again(original: Any) -> Any:
    return lambda topic, position, found, starts: (
        original(topic, position, found, starts)
        if position is None or position.offsets
        else original(topic, None, found, {each: bounds.end for each, bounds in found.partitions.items()})
    )


def jumping(original: Any) -> Any:
    """Goes on with what retention has left."""

    def begin(topic: Any, position: Any, found: Any, starts: Any) -> Any:
        if position is not None:
            firsts = {each: bounds.first for each, bounds in found.partitions.items()}
            left = {each: max(offset, firsts.get(each, 0)) for each, offset in position.offsets.items()}
            position = replace(position, offsets=left)
        return original(topic, position, found, starts)

    return begin


def by_the_least(original: Any) -> Any:
    def merged(stored: Any, split: int, splits: int) -> Any:
        found = original(stored, split, splits)
        return replace(found, offsets={each: found.began[each] for each in found.offsets})

    return merged


def of_its_own_number(original: Any) -> Any:
    """A split goes on where the former one of its number was."""

    def divide(self: Any, split: int, found: Any) -> Any:
        return original(self, split, {split: found[split]} if split in found else found)

    return divide


def of_all_partitions(original: Any) -> Any:
    return lambda partition, split, splits: True


def without_the_idle(original: Any) -> Any:
    """A position has only the partitions of which something was read."""

    def bounded(begins: Any, ends: Any, limit: Any) -> Any:
        found = original(begins, ends, limit)
        return replace(found, offsets={each: at for each, at in found.offsets.items() if at != begins[each]})

    return bounded


def one_too_few(original: Any) -> Any:
    return lambda start, end: [(each, begin, upto - 1) for each, begin, upto in original(start, end)]


def one_too_many(original: Any) -> Any:
    return lambda start, end: [(each, max(0, begin - 1), upto) for each, begin, upto in original(start, end)]


def without_what_is_new(original: Any) -> Any:
    """A partition that the position before did not have has no range."""
    return lambda start, end: [
        each for each in original(start, end) if start is None or str(each[0]) in start["offsets"]
    ]


def over_gaps(original: Any) -> Any:
    def joined(ranges: Any) -> Any:
        found = original(ranges)
        whole = {each: (each, min(one[1] for one in found if one[0] == each), end) for each, _, end in found}
        return list(whole.values())

    return joined


PLANTED: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "the high watermark instead of the last stable offset": (TopicQueries, "_offsets", the_high_watermark),
    "new partitions are read from their ends": (polls, "begin", from_their_ends),
    "lost offsets are passed over": (polls, "begin", jumping),
    "after a change of splits all is read again": (source, "merged", by_the_least),
    "after a change of splits a split has what its number had": (source.KafkaSource, "divide", of_its_own_number),
    "each split reads all partitions": (source, "is_of", of_all_partitions),
    "idle partitions are not remembered": (polls, "bounded", without_the_idle),
    "the last record of a range is left out": (source, "ranges_between", one_too_few),
    "the record before a range is read, too": (source, "ranges_between", one_too_many),
    "the first range of a new partition is forgotten": (source, "ranges_between", without_what_is_new),
    "what lies between two ranges is read": (reading, "joined", over_gaps),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_mistake_is_noticed(mistake: str, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, planted = PLANTED[mistake]
    monkeypatch.setattr(where, name, planted(getattr(where, name)))
    monkeypatch.setattr(rows, "PATIENCE", 2)
    monkeypatch.setattr(rows, "_HOPE", 1)
    with pytest.raises((AssertionError, CheckpointError, RuntimeError, ValueError, KeyError)):
        live_and_lose(broker)
