"""Where a topic is read on from after rows of it were lost, and which these are."""

import pytest
from cases import for_each
from kafka_brokers import Broker
from topic_lives import TopicReader, values

from tidegate.kafka.polls import Bounds, Found
from tidegate.kafka.positions import Position
from tidegate.kafka.skipping import cut_lost, skip_lost
from tidegate.ports import Skipped, SkippingSource, Snapshot
from tidegate.protocol.facts.errors import SourceChangedError
from tidegate.protocol.recovery.skipping import LostRows

READ = Position("A", {0: 10, 1: 20, 10: 5}, {0: 0, 1: 3, 10: 5}, 7)


def found(topic_id="A", **bounds):
    return Found(topic_id, {int(name[1:]): Bounds(*each) for name, each in bounds.items()})


@for_each(
    ("there", "lost", "offsets", "began"),
    [
        (found(p0=(0, 90), p1=(20, 90), p10=(5, 5)), [], READ.offsets, READ.began),
        (
            found(p0=(12, 90), p1=(20, 20), p10=(6, 6)),
            [LostRows("0", 10, 11, 12), LostRows("10", 5, 5, 6)],
            {0: 12, 1: 20, 10: 6},
            READ.began,
        ),
        (
            found(p0=(0, 9), p1=(0, 20)),  # the first ends before what was read, and the last is gone
            [LostRows("0", 10, None, 0), LostRows("10", 5, None, None)],
            {0: 0, 1: 20},
            {0: 0, 1: 3},
        ),
        (
            found("B", p0=(0, 90), p1=(2, 90)),
            [LostRows("0", 10, None, 0), LostRows("1", 20, None, 2), LostRows("10", 5, None, None)],
            {0: 0, 1: 2},
            {0: 0, 1: 2},
        ),
        (found(None, p0=(0, 90), p1=(0, 90), p10=(0, 90)), [], READ.offsets, READ.began),
    ],
)
def test_a_position_goes_on_with_the_first_record_that_is_left(there, lost, offsets, began):
    assert skip_lost(READ, there) == (lost, Position(there.topic_id, offsets, began, 7))


def test_of_what_is_in_flight_the_rest_is_read():
    start, end = Position("A", {0: 0, 1: 3}, {}, 7).stored(), READ.stored()
    rest = [(Position("A", {0: 4, 1: 3}, {0: 4, 1: 3}, 7)), Position("A", {0: 10, 1: 20}, {0: 4, 1: 3}, 7)]
    assert cut_lost(start, end, found(p0=(4, 10), p1=(0, 30))) == ([LostRows("0", 0, 3, 4)], tuple(rest))
    assert cut_lost(None, end, found(p0=(0, 10), p1=(30, 30))) == (
        [LostRows("1", 3, 19, 30)],
        (Position("A", {0: 0}, {0: 0}, 7), Position("A", {0: 10}, {0: 0}, 7)),
    )
    assert cut_lost(start, end, found("B", p0=(0, 99))) == (
        [LostRows("0", 0, 9, 0), LostRows("1", 3, 19, None)],
        None,
    )


def skipped(reader: TopicReader) -> dict[int, Skipped | None]:
    """As the coordinator does it: each split goes on from what it says."""
    source = reader.make()
    assert isinstance(source, SkippingSource)
    found = {split: source.skip_lost(taken.position) for split, taken in reader.taken.items()}
    for split, each in found.items():
        if each is not None:
            reader.taken[split] = Snapshot((), {**reader.taken[split].position, **each.rest})
    return found


def test_retention_has_deleted_what_was_not_read_and_a_skip_leads_on_also_with_other_splits(broker: Broker) -> None:
    topic = broker.topic(3)
    for partition in range(3):
        broker.produce(topic, values(partition, 10 + partition), partition)
    reader = TopicReader(topic, splits=2)
    assert len(reader.ids()) == 6
    for partition in range(3):
        broker.produce(topic, values(*(20 + 10 * n + partition for n in range(3))), partition)
    broker.forget(topic, 0, 4)
    broker.forget(topic, 1, 5)
    with pytest.raises(SourceChangedError, match="`tidegate source skip`"):
        reader.poll()
    lost = {split: each and list(each.lost) for split, each in skipped(reader).items()}
    assert lost == {0: [LostRows("0", 2, 3, 4)], 1: [LostRows("1", 2, 4, 5)]}
    assert reader.ids(splits=3) == [22, 32, 40, 42]
    assert skipped(reader) == {0: None, 1: None, 2: None}


def test_a_topic_made_anew_is_read_from_its_start(broker: Broker) -> None:
    topic = broker.topic(2)
    for partition in range(2):
        broker.produce(topic, values(*range(5)), partition)
    reader = TopicReader(topic)
    assert len(reader.ids()) == 10
    broker.delete(topic)
    broker.topic(1, name=topic)
    broker.produce(topic, values(77, 78))
    with pytest.raises(SourceChangedError, match="`tidegate source skip`"):
        reader.poll()
    [each] = skipped(reader).values()
    assert list(each.lost) == [LostRows("0", 5, None, 0), LostRows("1", 5, None, None)]
    assert reader.ids() == [77, 78]
    broker.grow(topic, 2)
    broker.produce(topic, values(79), 1)
    assert reader.ids() == [79]


def test_a_segment_in_flight_is_cut_and_its_rest_is_read(broker: Broker) -> None:
    topic = broker.topic()
    broker.produce(topic, values(*range(5)))
    reader = TopicReader(topic)
    [segment] = reader.poll()
    assert reader.make().cut_lost(segment.reference) is None
    broker.forget(topic, 0, 3)
    cut = reader.make().cut_lost(segment.reference)
    assert list(cut.lost) == [LostRows("0", 0, 2, 3)]
    rest = type(segment)(segment.split, cut.rest, segment.bytes)
    assert [row["id"] for row in reader.rows([rest])] == [3, 4]
