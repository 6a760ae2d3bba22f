"""A pipeline that reads a topic beside writers whose transactions commit, abort or stay open, killed with SIGKILL again
and again. Meanwhile its splits change and the topic gets more partitions. Then it is restored to each checkpoint that
is retained. Its tables are what plain Python says of what an independent consumer reads."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from threading import Event, Thread
from uuid import uuid4

import pytest
from confluent_kafka import Message
from kafka_brokers import Broker
from marts import Server
from repeating_driver import CHECKPOINTS, Lives, RepeatingDriver, completed
from sizes import sizes
from topic_pipeline import clicks_pipeline

from tidegate import CheckpointConfig, assembly
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.settings import Settings

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

Clicks = Sequence[tuple[int, str, int, int]]  # id, page, partition, offset


@contextmanager
def writing(broker: Broker, topic: str, seed: int) -> Iterator[None]:
    """Transactions of some records each, one after the other, beside records of none."""
    ended, random, ids = Event(), Random(seed), count()

    def values(most: int) -> Iterator[str]:
        for _ in range(random.randint(1, most)):
            yield json.dumps({"id": next(ids), "page": f"/{random.randrange(20)}"})

    def write() -> None:
        while not ended.wait(random.uniform(0, 2)):
            partitions = len(broker.ends(topic))
            broker.produce(topic, list(values(60)), random.randrange(partitions))
            other = broker.open_transaction(f"{topic}-{uuid4().hex}")
            for value in values(20):
                other.produce(topic, value, partition=random.randrange(partitions))
            other.flush(30)
            ended.wait(random.choice([0, 0, 0, 1, 3]))
            other.abort_transaction(30) if random.random() < 0.3 else other.commit_transaction(30)

    thread = Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def read_up_to(store: PostgresCheckpointStore, checkpoint_id: int) -> Mapping[int, int]:
    """By partition, the offset that a checkpoint has read up to."""
    taken = store.subtasks("clicks", checkpoint_id).values()
    positions = [each.snapshot.position for each in taken if each.snapshot.position and "to" in each.snapshot.position]
    return {int(place): end for position in positions for place, end in position["to"]["offsets"].items()}


def plain(messages: Sequence[Message], ends: Mapping[int, int] | None = None) -> Clicks:
    clicks = []
    for each in messages:
        place, number, value = each.partition(), each.offset(), json.loads(each.value() or b"")
        if ends is None or number < ends.get(place, 0):
            clicks.append((value["id"], value["page"], place, number))
    return sorted(clicks)


def require_tables(server: Server, clicks: Clicks) -> None:
    found = server.rows("SELECT id, page, place, number FROM public.clicks ORDER BY id")
    assert found == clicks, f"{len(found)} rows, and {len(clicks)} were committed"
    pages: dict[str, list[int]] = defaultdict(list)
    for id_, page, _, _ in clicks:
        pages[page].append(id_)
    assert server.rows('SELECT page, clicks, ids::bigint FROM public.pages ORDER BY page COLLATE "C"') == sorted(
        (page, len(ids), sum(ids)) for page, ids in pages.items()
    )


def opened(store: PostgresCheckpointStore, url: str, topic: str, splits: int) -> CheckpointCoordinator:
    """No checkpoint is in progress, which another number of splits does not go on with. The home of the driver is that
    of this process."""
    pipeline = clicks_pipeline(topic, splits, CheckpointConfig(**CHECKPOINTS))
    coordinator = assembly.open_coordinator(pipeline, Settings.from_environment(), url)
    for record in store.history("clicks", 5):
        if record.status is Status.IN_PROGRESS:
            coordinator.abort(record.checkpoint_id, FailureReason.CHECKPOINT_DECLINED, "changed")
    return coordinator


MAKER = "topic_pipeline:clicks_pipeline"


@sizes("kills", sample=3, whole=20)
@pytest.mark.parametrize("mode", ["scheduled", "continuous", "unaligned"])
def test_every_record_counts_once_however_often_it_is_killed_and_restored(
    mode: str,
    kills: int,
    tmp_path: Path,
    postgres_url: str,
    broker: Broker,
    connect_server: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", postgres_url)
    random, store, mart = Random(f"{mode} {kills}"), assembly.open_store(postgres_url), Server(postgres_url)
    topic, splits = broker.topic(3), 1
    make = partial(RepeatingDriver, tmp_path, postgres_url, mode, connect_server, MAKER, topic=topic)
    with writing(broker, topic, kills):
        for number in range(kills):
            splits = random.choice([1, 2, 3])
            if number % 3 == 2:
                broker.grow(topic, len(broker.ends(topic)) + 1)
            Lives(store, "clicks", partial(make, splits=splits), random).live(number)
            coordinator = opened(store, postgres_url, topic, splits)
            if number % 5 == 1 and (known := completed(store, "clicks")):
                coordinator.restore(ToCheckpoint(random.choice(known[:5])), Accepted())
    lives = Lives(store, "clicks", partial(make, splits=2), random)
    ends = broker.ends(topic)

    def is_read() -> bool:
        present = [each.checkpoint_id for each in store.completed("clicks") if each.abandoned_by is None]
        return read_up_to(store, max(present, default=0)) == ends

    lives.finish(is_read)
    messages = broker.messages(topic)
    require_tables(mart, plain(messages))
    assert len(messages) > 100
    if mode == "unaligned":  # what was in flight is in no table yet
        return
    for checkpoint_id in completed(store, "clicks")[:10]:
        opened(store, postgres_url, topic, 2).restore(ToCheckpoint(checkpoint_id), Accepted())
        require_tables(mart, plain(messages, read_up_to(store, checkpoint_id)))
    lives.finish(is_read)
    require_tables(mart, plain(messages))
