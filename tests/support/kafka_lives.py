"""What happens to a `KafkaSink` whose attempts overtake one another: each function says what its topic shows then."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from confluent_kafka import Producer
from kafka_brokers import Broker
from kafka_sinks import Watched, on_trial

from tidegate.kafka import markers, transactions
from tidegate.kafka.markers import Marker
from tidegate.kafka.transactions import Transaction
from tidegate.ports import StateHandle
from tidegate.protocol.facts.errors import SinkUnavailableError, SupersededAttemptError
from tidegate.protocol.recovery.ownership import Owner
from tidegate.testing.trials import Trial


@dataclass
class World:
    broker: Broker
    directory: Path

    def begun(self) -> tuple[Trial, list[StateHandle]]:
        """A sink that has one checkpoint, and what is staged for the second. The topic of its markers is its own."""
        trial = on_trial(self.broker, self.directory, markers=f"commits-{self.broker.topic()}")
        trial.take(1, trial.some_rows(1, 2))
        return trial, trial.stage(2, trial.some_rows(3))


def a_zombie_fences_the_newest(world: World) -> None:
    """The newest attempt begins again, and the zombie has written nothing."""
    trial, staged = world.begun()
    zombie = Watched(trial.attempts.next())

    def overtaken() -> None:
        with pytest.raises(SupersededAttemptError):
            trial.sink.commit(2, staged, zombie)

    newest = Watched(trial.attempts.next(), {2: overtaken})
    trial.sink.commit(2, staged, newest)
    assert (zombie.confirmed, newest.confirmed) == (1, 5), "fenced, asked whether it is the newest, and once more"
    trial.completed(2, staged)
    trial.check("After a zombie has fenced the newest attempt")
    assert len(world.broker.messages(trial.sink.topic, "read_uncommitted")) == 2 + 2, "a zombie writes nothing"


def stopped_in_its_transaction(world: World) -> None:
    trial, staged = world.begun()
    zombie = Watched(trial.attempts.next(), {2: lambda: trial.commit(2, staged)})
    with pytest.raises(SupersededAttemptError):
        trial.sink.commit(2, staged, zombie)
    trial.check("After a zombie went on in front of its commit")


def left_behind_by_a_restore(world: World) -> None:
    """Nothing writes to the topic then, so nothing fences."""
    trial, staged = world.begun()
    zombie = Watched(trial.attempts.next(), {2: trial.attempts.next})
    with pytest.raises(SupersededAttemptError):
        trial.sink.commit(2, staged, zombie)
    trial.check("After the pipeline was restored")


def fenced_again_and_again(world: World) -> None:
    trial, staged = world.begun()
    id_ = transactions.transactional_id(trial.sink.owner())
    attempt = Watched(trial.attempts.next(), {n: lambda: world.broker.open_transaction(id_) for n in (2, 5, 8)})
    text = r"was fenced 3 times by another producer with its transactional\.id"
    with pytest.raises(SupersededAttemptError, match=text):
        trial.sink.commit(2, staged, attempt)
    trial.check("After others have fenced each producer")
    trial.commit(2, staged)
    trial.check("After they have stopped that")


def fenced_while_it_writes(world: World) -> None:
    """At each of its steps, by somebody who does nothing else."""
    for step in ("begin", "produce", "flush", "commit"):
        for after in (False, True):
            trial, staged = world.begun()
            id_ = transactions.transactional_id(trial.sink.owner())
            with patch.object(Transaction, step, fenced(world, step, id_, after)):
                trial.commit(2, staged)
            trial.check(f"Fenced {'after' if after else 'before'} {step}")


def fenced(world: World, step: str, id_: str, after: bool) -> Callable[..., None]:
    original, left = getattr(Transaction, step), [id_]

    def call(self: Transaction, *given: Any) -> None:
        if left and not after:
            world.broker.open_transaction(left.pop())
        original(self, *given)
        if left:
            world.broker.open_transaction(left.pop())

    return call


def fenced_where_the_client_loses_the_error(world: World) -> None:
    """It raises a fatal error when its callbacks have run. One that catches errors, as handlers of logs do, catches
    this one."""

    def delivered(self: Transaction, *given: Any, original: Any = Transaction._delivered) -> None:
        try:
            original(self, *given)
        except SystemError:
            original(self, *given)

    with patch.object(Transaction, "_delivered", delivered):
        fenced_while_it_writes(world)


def open_on_markers(world: World, trial: Trial) -> Producer:
    """A transaction of another pipeline's, which hides what is committed to the topic of markers behind it."""
    other = world.broker.open_transaction(f"{trial.sink.topic}-other")
    other.produce(trial.sink.markers, Marker("other", "out", "here", 9).to_json(), b"of another pipeline")
    other.flush(30)
    return other


def behind_a_transaction_of_somebody_else(world: World) -> None:
    """What was committed to the topic of markers behind an open transaction is not seen until that has ended."""
    trial, staged = world.begun()
    other = open_on_markers(world, trial)
    trial.commit(2, staged)
    text = "it is unknown whether an earlier attempt has committed them"
    with patch.object(markers, "TIME_LIMIT", 1.0), pytest.raises(SinkUnavailableError, match=text):
        trial.commit(2, staged)
    other.abort_transaction(30)
    trial.commit(2, staged)
    trial.check("After the commit was repeated")


def a_later_one_behind_a_transaction_of_somebody_else(world: World) -> None:
    """The marker of checkpoint 2 is not seen yet, and that of checkpoint 3 must not say that 2 was passed over."""
    trial, staged = world.begun()
    other = open_on_markers(world, trial)
    trial.commit(2, staged)
    third = trial.stage(3, trial.some_rows(4))
    with patch.object(markers, "TIME_LIMIT", 1.0), pytest.raises(SinkUnavailableError):
        trial.commit(3, third)
    with patch.object(markers, "TIME_LIMIT", 1.0), pytest.raises(SinkUnavailableError):
        trial.sink.mark_anew(Owner("shop", trial.sink.topic, "there"))
    other.abort_transaction(30)
    trial.commit(3, third)
    trial.commit(2, staged)
    trial.check("After the commit was repeated behind a later one")


def taken_over_by_another_database(world: World) -> None:
    """What a process of the one before was writing is not committed."""
    trial, staged = world.begun()
    other = Owner("shop", trial.sink.topic, "there")
    attempt = Watched(trial.attempts.next(), {2: lambda: trial.sink.mark_anew(other)})
    trial.sink.commit(2, staged, attempt)
    assert attempt.confirmed == 5, "it was fenced, and began again with the transactional.id of the new owner"
    assert (trial.sink.owner(), trial.sink.numbers()) == (other, (2, attempt.number))
    trial.completed(2, staged)
    trial.check("After a new owner took the slot over")


def died_behind_the_commit(world: World) -> None:
    """Kafka has it, and Postgres does not."""
    trial, staged = world.begun()
    trial.commit(2, staged)
    trial.commit(2, staged)
    trial.check("After the commit was repeated")


def died_in_front_of_the_commit(world: World) -> None:
    trial, staged = world.begun()
    with patch.object(Transaction, "commit", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        trial.sink.commit(2, staged, trial.attempts.next())
    trial.check("After a process died in its transaction")
    trial.commit(2, staged)
    trial.check("After the commit was repeated")


def repeated_behind_a_later_one(world: World) -> None:
    trial, staged = world.begun()
    trial.commit(2, staged)
    trial.take(3, trial.some_rows(4))
    trial.commit(2, staged)
    trial.check("After the commit of checkpoint 2 was repeated behind that of checkpoint 3")


def committed_while_the_next_one_asks(world: World) -> None:
    """The next attempt has looked, and the one before commits then."""
    trial, staged = world.begun()
    stopped, goes_on = threading.Event(), threading.Event()
    zombie = threading.Thread(target=trial.sink.commit, args=(2, staged, trial.attempts.next()))

    def commit(self: Transaction, original: Any = Transaction.commit) -> None:
        if threading.current_thread() is zombie:
            stopped.set()
            assert goes_on.wait(30)
        original(self)

    def fence(self: Transaction, original: Any = Transaction.fence_others) -> None:
        if threading.current_thread() is not zombie:
            goes_on.set()
            zombie.join(30)
        original(self)

    with patch.multiple(Transaction, commit=commit, fence_others=fence):
        zombie.start()
        assert stopped.wait(30)
        trial.commit(2, staged)
    trial.check("After both have committed")


ALL: Sequence[Callable[[World], None]] = (
    a_zombie_fences_the_newest,
    stopped_in_its_transaction,
    left_behind_by_a_restore,
    fenced_again_and_again,
    fenced_while_it_writes,
    fenced_where_the_client_loses_the_error,
    behind_a_transaction_of_somebody_else,
    a_later_one_behind_a_transaction_of_somebody_else,
    taken_over_by_another_database,
    died_behind_the_commit,
    died_in_front_of_the_commit,
    repeated_behind_a_later_one,
    committed_while_the_next_one_asks,
)
