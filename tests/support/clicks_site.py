"""A site whose clicks go to a topic, and what the tables and topics of the clicks example show of them."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any
from uuid import uuid4

from confluent_kafka import Message, Producer
from kafka_brokers import Broker
from marts import Server
from pyiceberg.table import StaticTable

from clicks import plain, traffic
from clicks.traffic import Click

_WHERE = "SELECT table_name, metadata_location FROM tidegate_iceberg.iceberg_tables"
_COMPLETED = """SELECT max(checkpoint_id) FROM tidegate.checkpoints
    WHERE pipeline_id = 'web' AND status IN ('COMPLETED', 'SUBSUMED', 'DISCARDED')"""
#: By table in Postgres, the question for its rows.
_QUESTIONS = {
    "minutes": "SELECT page, window_start, clicks FROM public.minutes",
    "late_clicks": "SELECT id, page, at FROM public.late_clicks",
    "campaigns": "SELECT campaign, clicks FROM public.campaigns",
}
Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Cut:
    """What readers saw in one moment: the latest completed checkpoint, tables in Postgres, and in Iceberg."""

    checkpoint_id: int
    tables: dict[str, Rows]
    lake: dict[str, Rows]


@dataclass
class Site:
    """`made`: clicks that are in the topic, or on their way there."""

    broker: Broker
    server: Server
    home: Path
    partitions: int = 3
    made: list[Click] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clicks = self.broker.topic(self.partitions)
        # Readers see one partition as of one moment, and several as of as many.
        self.minutes, self.campaigns = self.broker.topic(1), self.broker.topic(1)
        landing = self.home / "landing"
        landing.mkdir(exist_ok=True)
        (landing / "pages.csv").write_text(traffic.pages_file())
        # Behind now, so that the last click is not in a future that brokers refuse.
        self._endless = traffic.clicks(1, datetime.now(UTC).replace(microsecond=0) - timedelta(hours=20))

    @property
    def given(self) -> dict[str, Any]:
        """The topics, for `clicks_pipeline`."""
        return {"clicks": self.clicks, "minutes": self.minutes, "campaigns": self.campaigns}

    def click(self, number: int) -> None:
        new = list(islice(self._endless, number))
        self.made += new
        traffic.produce(self.broker.settings, self.clicks, new)

    def transaction(self, number: int) -> tuple[Producer, list[Click]]:
        """One of somebody else, with clicks in partition 0, that is open."""
        producer, new = self.broker.open_transaction(uuid4().hex), list(islice(self._endless, number))
        for click in new:
            producer.produce(self.clicks, click.value, partition=0, timestamp=int(click.at.timestamp() * 1000))
        assert producer.flush(30) == 0
        return producer, new

    def grow(self, partitions: int) -> None:
        self.broker.grow(self.clicks, partitions)
        self.partitions = partitions

    def end(self) -> None:
        """A last click in each partition, an hour later, so that all windows before it end."""
        last = max(click.at for click in self.made) + timedelta(hours=1)
        for partition, click in enumerate(islice(self._endless, self.partitions)):
            self.made.append(replace(click, at=last))
            self.broker.produce(self.clicks, [click.value], partition, timestamp=int(last.timestamp() * 1000))

    @contextmanager
    def rush(self, seed: int) -> Iterator[None]:
        """Clicks come all the time, in smaller and larger numbers."""
        over, errors = Event(), []

        def run() -> None:
            random = Random(seed)
            while not over.wait(random.uniform(0, 0.5)):
                try:
                    self.click(random.choice([1, 3, 20, 50, 400]))
                except Exception as error:
                    errors.append(error)
                    return

        thread = Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        assert not errors, errors

    # -- what is shown

    def read_cut(self) -> Cut | None:
        """None before the first checkpoint."""
        with self.server.session() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute(_COMPLETED)
            [(completed,)] = cursor.fetchall()
            if completed is None:
                return None
            cursor.execute(_WHERE)
            locations = dict(cursor.fetchall())
            tables = {name: _rows(cursor, name) for name in _QUESTIONS}
        lake = {name: StaticTable.from_metadata(location).scan().to_arrow() for name, location in locations.items()}
        columns = {
            "clicks": ("id", "page", "visitor", "campaign"),
            "minutes": ("page", "window_start", "clicks"),
            "campaigns": ("campaign", "clicks"),
        }
        rows: dict[str, Rows] = {name: Counter() for name in columns}
        for name, table in lake.items():
            rows[name] = Counter(tuple(_plain(row[each]) for each in columns[name]) for row in table.to_pylist())
        return Cut(completed, tables, rows)

    def topics(self) -> dict[str, list[Message]]:
        """What a consumer that reads what is committed sees of them."""
        return {"minutes": self.broker.messages(self.minutes), "campaigns": self.broker.messages(self.campaigns)}

    def read(self) -> int:
        """How many clicks have been read."""
        cut = self.read_cut()
        return 0 if cut is None else cut.lake["clicks"].total()

    def has_all(self) -> bool:
        return self.read() == len(self.made)

    # -- what must be shown

    def check_cut(self, cut: Cut) -> None:
        """The tables are of the same clicks, and each of them is there once, or late."""
        assert cut.lake["minutes"] == cut.tables["minutes"]
        assert cut.lake["campaigns"] == cut.tables["campaigns"]
        ids = Counter(row[0] for row in cut.lake["clicks"].elements())
        assert not (twice := [id_ for id_, times in ids.items() if times > 1]), f"clicks were read twice: {twice}"
        assert cut.lake["campaigns"] == Counter(Counter(row[3] for row in cut.lake["clicks"].elements()).items())

    def check_end(self) -> None:
        """After a last checkpoint that has read all."""
        written = sorted(row["id"] for row in self.broker.rows(self.clicks))
        assert written == sorted(click.id for click in self.made), "the test has written something else"
        cut = self.read_cut()
        assert cut is not None
        self.check_cut(cut)
        made = self.made
        assert sorted(cut.lake["clicks"].elements()) == plain.joined(made)
        assert cut.tables["campaigns"] == Counter(plain.by_campaign(made).items())
        late = Counter((page, _minute(at)) for _, page, at in cut.tables["late_clicks"].elements())
        shown: Counter[Any] = Counter()
        for page, minute, clicks in cut.tables["minutes"].elements():
            assert (page, minute) not in shown, "a minute was shown twice"
            shown[(page, minute)] = clicks
        assert shown + late == plain.by_minute(made[: -self.partitions])
        for name, records in self.topics().items():
            assert made_of(name, records) == cut.tables[name]


class Watching(Thread):
    """Looks at tables and topics again and again, while others write."""

    def __init__(self, site: Site) -> None:
        super().__init__(daemon=True)
        self._site, self._over, self._error = site, Event(), None
        self._cuts: dict[int, Cut] = {}
        self._seen: set[tuple[str, int, int]] = set()  # topics, with the latest checkpoint and the number of records

    def run(self) -> None:
        pause = 0.1
        while not self._over.wait(pause):
            began = time.monotonic()
            try:
                self._follow()
            except Exception as error:
                self._error = error
                return
            pause = time.monotonic() - began

    def _follow(self) -> None:
        cut = self._site.read_cut()
        if cut is not None and cut.checkpoint_id not in self._cuts:
            self._cuts[cut.checkpoint_id] = cut
            self._site.check_cut(cut)
        for name, records in self._site.topics().items():
            if records:
                self._seen.add((name, checkpoint_of(records[-1]), len(records)))

    def finish(self) -> None:
        """After all has been written. What a consumer has seen were whole checkpoints, and these are together what the
        tables were when the checkpoint completed."""
        self._over.set()
        self.join()
        if self._error is not None:
            raise self._error
        self._follow()  # on a slow machine it has seen little so far
        topics = self._site.topics()
        for name, latest, number in self._seen:
            assert len(upto(topics[name], latest)) == number, f"a part of checkpoint {latest} was seen in {name}"
        for id_, cut in self._cuts.items():
            for name, records in topics.items():
                assert made_of(name, upto(records, id_)) == cut.tables[name], f"{name} of checkpoint {id_}"
        assert self._cuts
        assert {name for name, _, _ in self._seen} == set(topics)


def upto(records: Sequence[Message], checkpoint_id: int) -> list[Message]:
    return [each for each in records if checkpoint_of(each) <= checkpoint_id]


def made_of(topic: str, records: Sequence[Message]) -> Rows:
    """The table that somebody makes of a topic."""
    if topic == "minutes":
        rows = [json.loads(each.value() or b"") for each in records]
        starts = [_plain(datetime.fromisoformat(row["window_start"])) for row in rows]
        return Counter((row["page"], start, row["clicks"]) for row, start in zip(rows, starts, strict=True))
    latest = {each.key(): each.value() for each in records}
    rows = [json.loads(value) for value in latest.values() if value is not None]
    return Counter((row["campaign"], row["clicks"]) for row in rows)


def checkpoint_of(message: Message) -> int:
    headers: Sequence[Any] = message.headers() or []
    return int(dict(headers)["tidegate-checkpoint"])


def _rows(cursor: Any, table: str) -> Rows:
    """None before there is the table, which is made for its first rows."""
    cursor.execute("SELECT to_regclass(%s)", [f"public.{table}"])
    if cursor.fetchone() == (None,):
        return Counter()
    cursor.execute(_QUESTIONS[table])
    return Counter(tuple(map(_plain, row)) for row in cursor.fetchall())


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def _plain(value: Any) -> Any:
    """A time in UTC, without its zone."""
    is_zoned = isinstance(value, datetime) and value.tzinfo is not None
    return value.astimezone(UTC).replace(tzinfo=None) if is_zoned else value
