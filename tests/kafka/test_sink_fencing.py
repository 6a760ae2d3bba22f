"""The last producer that asks fences the others, whichever attempt it is: the newest attempt wins all the same."""

from pathlib import Path

import pytest
from kafka_brokers import Broker
from kafka_sinks import Watched, on_trial

from tidegate.kafka import markers, transactions
from tidegate.kafka.markers import Marker
from tidegate.protocol.facts.errors import SinkUnavailableError, SupersededAttemptError
from tidegate.protocol.recovery.ownership import Owner
from tidegate.testing.trials import Trial


@pytest.fixture
def trial(broker: Broker, tmp_path: Path) -> Trial:
    trial = on_trial(broker, tmp_path / "home", pipeline=f"shop-{tmp_path.name}")
    trial.take(1, trial.some_rows(1, 2))
    return trial


def test_the_newest_attempt_that_a_zombie_fences_begins_again(trial: Trial, broker: Broker) -> None:
    staged = trial.stage(2, trial.some_rows(3))
    zombie = Watched(trial.attempts.next())
    newest = Watched(trial.attempts.next(), {2: lambda: overtaken(trial, staged, zombie)})
    trial.sink.commit(2, staged, newest)
    assert (zombie.confirmed, newest.confirmed) == (1, 5), "fenced, asked whether it is the newest, and once more"
    trial.completed(2, staged)
    trial.check("After a zombie has fenced the newest attempt")
    assert len(broker.messages(trial.sink.topic, "read_uncommitted")) == 2 + 2, "a zombie writes nothing"


def overtaken(trial: Trial, staged: list, zombie: Watched) -> None:  # type: ignore[type-arg]
    with pytest.raises(SupersededAttemptError):
        trial.sink.commit(2, staged, zombie)


def test_an_attempt_that_was_stopped_in_its_transaction_is_fenced(trial: Trial) -> None:
    staged = trial.stage(2, trial.some_rows(3))
    zombie = Watched(trial.attempts.next(), {2: lambda: trial.commit(2, staged)})
    with pytest.raises(SupersededAttemptError):
        trial.sink.commit(2, staged, zombie)
    trial.check("After a zombie went on in front of its commit")


def test_what_a_later_attempt_has_not_written_is_not_written_by_an_earlier_one(trial: Trial) -> None:
    """As after a restore that has left the checkpoint behind: nothing writes to the topic then, so nothing fences."""
    staged = trial.stage(2, trial.some_rows(3))
    zombie = Watched(trial.attempts.next(), {2: trial.attempts.next})
    with pytest.raises(SupersededAttemptError):
        trial.sink.commit(2, staged, zombie)
    trial.check("After the pipeline was restored")


def test_who_is_fenced_again_and_again_says_so(trial: Trial, broker: Broker) -> None:
    staged = trial.stage(2, trial.some_rows(3))
    id_ = transactions.transactional_id(trial.sink.owner())
    attempt = Watched(trial.attempts.next(), {n: lambda: broker.open_transaction(id_) for n in (2, 5, 8)})
    with pytest.raises(
        SupersededAttemptError, match=r"was fenced 3 times by another producer with its transactional\.id"
    ):
        trial.sink.commit(2, staged, attempt)
    trial.check("After others have fenced each producer")
    trial.commit(2, staged)
    trial.check("After they have stopped that")


def test_a_transaction_of_somebody_else_on_the_topic_of_markers_hides_none(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed behind an open transaction is not seen until that has ended."""
    monkeypatch.setattr(markers, "TIME_LIMIT", 1.0)
    trial = on_trial(broker, tmp_path / "home", markers=f"commits-{broker.topic()}")
    trial.take(1, trial.some_rows(1, 2))
    staged = trial.stage(2, trial.some_rows(3))
    other = broker.open_transaction(f"{trial.sink.topic}-other")
    other.produce(trial.sink.markers, Marker("other", "out", "here", 9).to_json(), b"of another pipeline")
    other.flush(30)
    trial.commit(2, staged)
    with pytest.raises(SinkUnavailableError, match="whether an earlier attempt has committed them cannot be seen"):
        trial.commit(2, staged)
    other.abort_transaction(30)
    trial.commit(2, staged)
    trial.check("After the commit was repeated")


def test_a_database_that_takes_over_fences_the_one_before(trial: Trial) -> None:
    staged, topic = trial.stage(2, trial.some_rows(3)), trial.sink.topic
    other = Owner("shop", topic, "there")
    taken = Watched(trial.attempts.next(), {2: lambda: trial.sink.mark_anew(other)})
    trial.attempts.next = lambda: taken.attempt  # type: ignore[method-assign]
    trial.sink.commit(2, staged, taken)
    assert taken.confirmed == 5, "it was fenced, and began again with the transactional.id of the new owner"
    assert (trial.sink.owner(), trial.sink.numbers()) == (other, (2, taken.number))
    trial.completed(2, staged)
    trial.check("After a new owner took the slot over")
