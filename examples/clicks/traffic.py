"""Generated clicks, the same for the same seed.

`python -m clicks.traffic clicks 1000` writes 1000 clicks to the topic `clicks` of the connection `kafka_default`.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

#: The campaign of each page.
PAGES = {f"/{name}": f"campaign {number % 5}" for number, name in enumerate("abcdefghijklm")}


@dataclass(frozen=True, slots=True)
class Click:
    """A click. `at` is in UTC, and is the time of its record."""

    id: int
    page: str
    visitor: int
    at: datetime

    @property
    def value(self) -> str:
        return json.dumps({"id": self.id, "page": self.page, "visitor": self.visitor})


def clicks(seed: int, begin: datetime, first: int = 0) -> Iterator[Click]:
    """Yield clicks without end, from a moment on: several hundred a minute, each up to a few seconds out of order."""
    random, id_ = Random(seed), first
    pages, now = list(PAGES), begin
    while True:
        now += timedelta(milliseconds=random.randrange(500))
        at = now - timedelta(milliseconds=random.randrange(5000))
        yield Click(id_, pages[int(random.betavariate(1, 3) * len(pages))], random.randrange(10_000), at)
        id_ += 1


def pages_file() -> str:
    """Return the content of the file of pages."""
    return "page,campaign\n" + "".join(f"{page},{campaign}\n" for page, campaign in PAGES.items())


def produce(settings: Mapping[str, Any], topic: str, made: Iterable[Click]) -> None:
    """Write clicks, those of a visitor to the same partition. `settings` are librdkafka's."""
    from confluent_kafka import Producer

    producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 20})
    for click in made:
        producer.produce(topic, click.value, str(click.visitor), timestamp=int(click.at.timestamp() * 1000))
        producer.poll(0)
    if left := producer.flush(30):
        raise RuntimeError(f"{left} clicks were not written to the topic {topic!r}.")


def main(topic: str, number: str) -> None:
    from itertools import islice

    from tidegate.kafka.connections import DEFAULT, brokers_of

    begin = datetime.now(UTC)
    produce(brokers_of(DEFAULT).settings, topic, islice(clicks(0, begin, int(begin.timestamp())), int(number)))


if __name__ == "__main__":
    main(*sys.argv[1:])
