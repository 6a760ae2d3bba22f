"""How a checkpoint stands, for every end that one can have: its page, the history, the overview, the API and the
commands say the same, offer a decision only while there is one to make, and count as failures only what failed."""

import html
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from commands import CommandHere, environment_of
from shown_pipelines import ShownPipeline
from user_actions import approve, reject, suspend
from worlds import MemoryStorage

from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.observing.actions import Actor, ActorKind
from tidegate.reading.advice import ADVICE

NAME = "flight_delays"
ACTOR = Actor(ActorKind.CLI_USER, "ada", "here")
SOON, EXPIRED = timedelta(minutes=5), timedelta(hours=3)
Shown = ShownPipeline


def triggered(shown: Shown) -> int:
    return shown.trigger()


def acknowledged(shown: Shown) -> int:
    taken = shown.trigger()
    shown.snapshot(taken)
    return taken


def held(shown: Shown) -> int:
    return shown.hold()


def approved(shown: Shown) -> int:
    taken = shown.hold()
    approve(shown.coordinator, taken, "ada")
    return taken


def rejected(shown: Shown) -> int:
    taken = shown.hold()
    reject(shown.coordinator, taken, "ada", "a typing error")
    return taken


def hold_expired(shown: Shown) -> int:
    taken = shown.hold()
    shown.clock.advance(2.5 * 3600)
    shown.coordinator.clean()
    shown.trigger()  # whoever comes next ends it
    return taken


def completed(shown: Shown) -> int:
    return shown.complete()


def completed_approved(shown: Shown) -> int:
    taken = approved(shown)
    shown.finish(taken)
    return taken


def subsumed(shown: Shown) -> int:
    taken = shown.complete()
    shown.take(5, 1)
    with shown.store.transaction(NAME) as tx:
        assert tx.checkpoint(taken).status.value in ("SUBSUMED", "DISCARDED")  # type: ignore[union-attr]
    return taken


def left_behind(shown: Shown) -> int:
    before, taken = shown.complete(), shown.complete()
    shown.coordinator.restore(ToCheckpoint(before))
    return taken


def expired(shown: Shown) -> int:
    taken = shown.trigger()
    shown.clock.advance(3600)
    shown.trigger()
    return taken


def aborted_by_hand(shown: Shown) -> int:
    taken = shown.trigger()
    shown.coordinator.operations.abort("request", ACTOR, taken)
    return taken


def dag_run_ended(shown: Shown) -> int:
    taken = shown.trigger()
    shown.coordinator.abort(taken, FailureReason.COORDINATOR_SUSPEND, "DAG run x was ended by hand.")
    return taken


def suspended(shown: Shown) -> int:
    taken = shown.trigger()
    suspend(shown.coordinator)
    return taken


def suspended_while_held(shown: Shown) -> int:
    taken = shown.hold()
    suspend(shown.coordinator)
    return taken


def stopped(shown: Shown) -> int:
    taken = shown.trigger()
    shown.trigger("stop", kind=CheckpointKind.SYNC_SAVEPOINT)
    return taken


def restored(shown: Shown) -> int:
    before = shown.complete()
    taken = shown.trigger()
    shown.coordinator.restore(ToCheckpoint(before))
    return taken


def cancelled(shown: Shown) -> int:
    taken = shown.trigger()
    shown.coordinator.cancel()
    return taken


def failed_validation(shown: Shown) -> int:
    taken = shown.trigger()
    shown.snapshot(taken)
    shown.coordinator.abort(taken, FailureReason.VALIDATION_FAILED, "17 values are negative.")
    return taken


@dataclass(frozen=True)
class End:
    come: Callable[[Shown], int]
    text: str
    tone: str
    counts: bool = False  # as a failure in a row
    decide: bool = False
    ago: timedelta = SOON


ENDS = {
    "triggered": End(triggered, "IN_PROGRESS (triggered)", "busy"),
    "acknowledged": End(acknowledged, "IN_PROGRESS (acknowledged)", "busy"),
    "past its deadline": End(triggered, "IN_PROGRESS (triggered, overdue)", "bad", ago=EXPIRED),
    "held": End(held, "HELD", "warn", decide=True),
    "held for too long": End(held, "HELD (expired)", "bad", ago=EXPIRED),
    "approved": End(approved, "IN_PROGRESS (approved)", "busy"),
    "completed": End(completed, "COMPLETED", "good"),
    "completed, as approved": End(completed_approved, "COMPLETED (approved)", "good"),
    "subsumed": End(subsumed, "COMPLETED (discarded)", ""),
    "left behind by a restore": End(left_behind, "COMPLETED (left behind)", ""),
    "failed validation": End(failed_validation, "FAILED", "bad", counts=True),
    "rejected": End(rejected, "FAILED (rejected)", ""),
    "hold expired": End(hold_expired, "FAILED (hold expired)", "bad", counts=True, ago=EXPIRED),
    "expired": End(expired, "FAILED", "bad", counts=True, ago=timedelta(hours=1)),
    "aborted by hand": End(aborted_by_hand, "FAILED (on purpose)", ""),
    "DAG run ended by hand": End(dag_run_ended, "FAILED (on purpose)", ""),
    "suspended": End(suspended, "FAILED (on purpose)", ""),
    "suspended while held": End(suspended_while_held, "FAILED (on purpose)", ""),
    "stopped with a savepoint": End(stopped, "FAILED (on purpose)", ""),
    "restored": End(restored, "FAILED (on purpose)", ""),
    "cancelled": End(cancelled, "FAILED (pipeline cancelled)", ""),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_every_place_says_how_a_checkpoint_stands(
    end: End, store: PostgresCheckpointStore, get: Any, ask: Any, token: Any, tmp_path: Path, running_url: str
) -> None:
    shown = Shown(store, MemoryStorage(), hold_for="2 h", ago=end.ago)
    taken = end.come(shown)
    record = store.checkpoint(NAME, taken)
    here = CommandHere(tmp_path, environment_of(tmp_path, running_url))

    def page(path: str) -> str:
        answer: httpx.Response = get(f"/tidegate/pipelines/{NAME}{path}", token=token("admin"))
        assert answer.status_code == 200
        return answer.text

    pill = f'<span class="pill {end.tone}">{end.text}</span>'
    own, history, overview = page(f"/checkpoints/{taken}"), page("/history"), page("")
    assert pill in own
    assert pill in history
    assert pill in overview
    for shows in (own, overview):
        offered = {button for button in ("Approve", "Reject") if f">{button}</button>" in shows}
        assert offered == ({"Approve", "Reject"} if end.decide else set())
    in_a_row = re.search(r"<dt>Failures in a row</dt><dd(.*?)>(\d+)</dd>", overview)
    assert in_a_row is not None
    assert in_a_row.groups() == ((' class="bad"', "1") if end.counts else ("", "0"))
    assert ("waits for approval" in overview) == end.decide

    details = ask(f"/tidegate/api/v1/pipelines/{NAME}/checkpoints/{taken}").json()
    lines = ask(f"/tidegate/api/v1/pipelines/{NAME}/history").json()["history"]
    (line,) = (one for one in lines if one["id"] == taken)
    for document in (details, line):
        assert (document["standing"], document["held"]) == (end.text, end.decide)
        assert document["status"] == end.text.split(" (")[0].replace("HELD", "IN_PROGRESS")
    (of_pipeline,) = ask("/tidegate/api/v1/pipelines").json()["pipelines"]
    assert (of_pipeline["failures_in_a_row"], of_pipeline["held"]) == (int(end.counts), [taken] * end.decide)

    assert re.search(rf"^{taken} +{re.escape(end.text)} ", here("checkpoints", NAME).stdout, re.MULTILINE)
    command = here("checkpoint", NAME, str(taken)).stdout
    assert f"Checkpoint {taken} {end.text}\n" in command
    assert json.loads(here("checkpoint", NAME, str(taken), "-o", "json").stdout)["standing"] == end.text
    said = json.loads(here("stats", NAME, "-o", "json").stdout)["held"]
    assert (said and said["id"]) == (taken if end.decide else None)

    advice = details["advice"]
    done = end.tone == "good" or end.text.startswith("COMPLETED")
    assert (advice is None) == (done or end.text in ("IN_PROGRESS (triggered)", "IN_PROGRESS (acknowledged)"))
    if advice:
        assert advice in html.unescape(own)
        assert advice in command.replace("\n", " ")
    if record and record.failure_reason:
        assert advice == details["failure"]["advice"] == ADVICE[record.failure_reason]
        assert (record.failure_message or "") in html.unescape(own)


@pytest.mark.parametrize("reason", [one for one in FailureReason if not one.pre_flight], ids=lambda one: one.name)
def test_what_ended_on_purpose_is_nowhere_a_failure(
    reason: FailureReason, store: PostgresCheckpointStore, ask: Any, get: Any, token: Any
) -> None:
    """Also for the exit code of `tidegate watch --once`, which decides by the same rule."""
    shown = Shown(store, MemoryStorage(), ago=SOON, hold_for="2 h")
    if reason is FailureReason.VALIDATION_REJECTED:  # the database takes it only of what a person has rejected
        taken = rejected(shown)
    else:
        taken = shown.trigger()
        shown.coordinator.abort(taken, reason, reason.sentence)
    (line,) = ask("/tidegate/api/v1/pipelines").json()["pipelines"]
    health = shown.coordinator.reporting.watch()
    assert (line["failures_in_a_row"] == 1) == reason.is_fault == (health.failing is not None) == (not health.well)
    shows = get(f"/tidegate/pipelines/{NAME}/checkpoints/{taken}", token=token("viewer")).text
    assert ('class="notice fails"' in shows) == reason.is_fault
    assert ('<span class="pill bad">FAILED' in shows) == reason.is_fault
