"""Whatever a failure's message or a verdict holds, it is recorded and the checkpoint ends."""

from contextlib import contextmanager

import pytest
from store_steps import PIPELINE, acknowledged, at, triggered
from worlds import Judge

from tidegate.protocol.facts.errors import RecordRefusedError, ValidationFailedError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import Verdict
from tidegate.protocol.steps.stopping import LONGEST_REQUEST_ID
from tidegate.protocol.steps.trigger import Queued

HOSTILE = "\0 and \ud800 and \x1b[2J and ' \" \\ %s :name {} and " + "Zürich" * 100_000


def test_a_failure_is_recorded_whatever_its_message_holds(store):
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        assert transaction.fail(1, FailureReason.TASK_FAILURE, HOSTILE, at(1))
    kept = store.checkpoint(PIPELINE, 1)
    assert kept.status is Status.FAILED
    assert kept.failure_message.startswith("\ufffd and \ufffd and \x1b[2J and ' \" \\ %s :name {} and Zürich")
    assert kept.failure_message.encode()


def test_verdicts_are_recorded_whatever_the_failing_rows_hold(store):
    acknowledged(store)
    result = {"type": "t", "unexpected_samples": [HOSTILE, float("nan"), float("inf")], "details": {"k\0": "\udfff"}}
    with store.transaction(PIPELINE) as transaction:
        transaction.record_verdicts(1, [Verdict(Target.parse("sink:out"), "s", None, 1, 1, (result,), error=HOSTILE)])
    verdict = store.verdicts(PIPELINE, 1)[0]
    assert verdict.results[0]["unexpected_samples"][1:] == ["nan", "inf"]
    assert verdict.results[0]["details"] == {"k\ufffd": "\ufffd"}
    assert verdict.error.startswith("\ufffd and")


def test_a_pipeline_says_what_it_failed_of_whatever_that_holds(store):
    with store.transaction(PIPELINE) as transaction:
        transaction.move_pipeline(PipelineStatus.RUNNING, at(0))
        transaction.move_pipeline(PipelineStatus.FAILED, at(1), HOSTILE)
        assert transaction.pipeline().message.startswith("\ufffd and")
        within = transaction.pipeline()
    assert store.pipeline(PIPELINE) == within


def test_an_aborted_checkpoint_ends_and_the_next_one_starts(desk):
    at_desk = desk()
    first = at_desk.ask("r1")
    ended = at_desk.coordinator.abort(first.checkpoint_id, FailureReason.TASK_FAILURE, HOSTILE)
    assert ended.status is Status.FAILED
    at_desk.complete(at_desk.ask("r2").checkpoint_id)


def test_a_failed_judgement_of_such_rows_ends_the_checkpoint(desk):
    at_desk = desk()
    first = at_desk.ask("r1")
    at_desk.acknowledge(first.checkpoint_id)
    judge = Judge(False)
    judge.validate = lambda *known: [
        Verdict(Target.parse("sink:out"), "s", False, 1, 1, ({"type": HOSTILE},), error=HOSTILE)
    ]
    with pytest.raises(ValidationFailedError):
        at_desk.coordinator.validate(first.checkpoint_id, judge)
    assert at_desk.store.checkpoint("p", first.checkpoint_id).status is Status.FAILED


class Refusing:
    """A store that refuses to record one message."""

    def __init__(self, store, message):
        self._store, self._message = store, message

    def __getattr__(self, name):
        return getattr(self._store, name)

    @contextmanager
    def transaction(self, pipeline_id, prefetch=None, participants=()):
        with self._store.transaction(pipeline_id, prefetch, participants) as tx:
            fail = tx.fail

            def refuse(checkpoint_id, reason, message, now):
                if message == self._message:
                    raise RecordRefusedError("The store refused a row.")
                return fail(checkpoint_id, reason, message, now)

            tx.fail = refuse
            yield tx


def test_a_failure_that_cannot_be_recorded_ends_the_checkpoint_all_the_same(desk):
    at_desk = desk()
    first = at_desk.ask("r1")
    at_desk.reopen(Refusing(at_desk.store, "no"))
    ended = at_desk.coordinator.abort(first.checkpoint_id, FailureReason.CHECKPOINT_DECLINED, "no")
    assert (ended.status, ended.failure_reason) == (Status.FAILED, FailureReason.CHECKPOINT_DECLINED)
    assert "The full message cannot be recorded" in ended.failure_message


def test_the_longest_request_id_there_may_be_is_queued_and_started(desk):
    at_desk = desk()
    longest = "".join(chr(0x4E00 + n * 37) for n in range(LONGEST_REQUEST_ID))  # which does not compress
    first = at_desk.ask("r1")
    assert isinstance(at_desk.ask(longest), Queued)
    at_desk.complete(first.checkpoint_id)
    at_desk.complete(at_desk.ask(longest).checkpoint_id)
