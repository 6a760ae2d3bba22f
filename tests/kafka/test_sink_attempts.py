"""The last producer that asks fences the others, whichever attempt it is: the newest attempt wins all the same, and
mistakes that somebody could make there are noticed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import kafka_lives as lives
import pytest
from cases import for_each
from kafka_brokers import Broker
from kafka_sinks import Watched

from tidegate.kafka import markers, transactions
from tidegate.kafka.markers import Markers
from tidegate.kafka.transactions import Transaction
from tidegate.protocol.facts.errors import CheckpointError

NOTICED = (AssertionError, pytest.fail.Exception, CheckpointError)


@for_each("happens", lives.ALL)
def test_each_checkpoint_is_shown_once(happens: Callable[[lives.World], None], broker: Broker, tmp_path: Path) -> None:
    happens(lives.World(broker, tmp_path / "home"))


def unconfirmed(nth: int) -> Callable[[Any], Any]:
    """The attempt is not asked the first or the second time that a transaction does so."""

    def planted(original: Any) -> Any:
        def write(writing: Any, brokers: Any, topic: str, works: Any, id_: int, attempt: Any) -> None:
            asked = [0]

            class Silent:
                number, keep = attempt.number, attempt.keep

                def confirm(self) -> None:
                    asked[0] += 1
                    if asked[0] != nth:
                        attempt.confirm()
                    elif isinstance(attempt, Watched):  # what happens meanwhile happens all the same
                        attempt.confirmed += 1
                        attempt.then.get(attempt.confirmed, lambda: None)()

            original(writing, brokers, topic, works, id_, Silent())

        return write

    return planted


def outside_of_the_transaction(original: Any) -> Any:
    def produce(self: Transaction, topic: str, record: Any, keep: Any) -> None:
        if not topic.startswith("commits-"):
            return original(self, topic, record, keep)
        from confluent_kafka import Producer

        from tidegate.kafka.connections import brokers_of

        other = Producer(dict(brokers_of("kafka_default").settings))
        other.produce(topic, record.value, record.key)
        other.flush(30)
        return None

    return produce


def as_it_was_before(original: Any) -> Any:
    """What was read before the transaction counts."""
    seen: dict[int, Markers] = {}

    def decided(brokers: Any, topic: str, refusals: Any, slots: Any, id_: int, keep: Any) -> Markers:
        return seen.get(id_) or original(brokers, topic, refusals, slots, id_, keep)

    def read(*given: Any, look: Any = markers.read) -> Markers:
        found: Markers = look(*given)
        seen.setdefault(2, found) if any(each.checkpoint_id == 1 for each in found.committed.values()) else None
        return found

    decided.read = read  # type: ignore[attr-defined]
    return decided


def never(original: Any) -> Any:
    return lambda *given: False


def always(original: Any) -> Any:
    return lambda *given: True


def not_fenced(original: Any) -> Any:
    return lambda *given: None


def the_same_one_alone(original: Any) -> Any:
    return lambda self, slot, id_: (marker := self.of(slot)) is not None and marker.checkpoint_id == id_


def a_later_one_alone(original: Any) -> Any:
    return lambda self, slot, id_: (marker := self.of(slot)) is not None and marker.checkpoint_id > id_


MISTAKES = {
    "no confirm after init_transactions": (transactions, "_write", unconfirmed(1), lives.a_zombie_fences_the_newest),
    "no confirm before the commit": (transactions, "_write", unconfirmed(2), lives.left_behind_by_a_restore),
    "the marker is outside of the transaction": (
        Transaction,
        "produce",
        outside_of_the_transaction,
        lives.died_in_front_of_the_commit,
    ),
    "the marker is not read": (Markers, "has", never, lives.died_behind_the_commit),
    "the marker is not read again after init_transactions": (
        markers,
        "read_decided",
        as_it_was_before,
        lives.committed_while_the_next_one_asks,
    ),
    "the marker of the same checkpoint does not count": (
        Markers,
        "has",
        a_later_one_alone,
        lives.died_behind_the_commit,
    ),
    "the marker of a later checkpoint does not count": (
        Markers,
        "has",
        the_same_one_alone,
        lives.repeated_behind_a_later_one,
    ),
    "records behind an open transaction are passed over": (
        Markers,
        "is_decided",
        always,
        lives.behind_a_transaction_of_somebody_else,
    ),
    "a marker that is not seen yet is passed over": (
        Markers,
        "is_decided",
        always,
        lives.a_later_one_behind_a_transaction_of_somebody_else,
    ),
    "a former owner is not fenced": (transactions, "_fence", not_fenced, lives.taken_over_by_another_database),
    "who is fenced gives up": (transactions, "_TRIES", lambda tries: 1, lives.a_zombie_fences_the_newest),
}


@for_each("mistake", list(MISTAKES))
def test_a_mistake_is_noticed(mistake: str, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    thing, name, planted, happens = MISTAKES[mistake]
    with monkeypatch.context() as patch:
        changed = planted(getattr(thing, name))
        patch.setattr(thing, name, changed)
        if hasattr(changed, "read"):
            patch.setattr(markers, "read", changed.read)
        with pytest.raises(NOTICED) as noticed:
            happens(lives.World(broker, tmp_path / "home"))
    print(f"{mistake}: {str(noticed.value)[:150]}")
