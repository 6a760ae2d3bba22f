"""Mistakes that somebody could make where lost rows are skipped, each planted, and each noticed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from losing_sources import SPLITS, Reading
from memory_store import MemoryCheckpointStore
from pasts import OP

from tidegate.coordination.recovery import skipping as doing
from tidegate.coordination.steps import lookup
from tidegate.protocol.facts.errors import CheckpointError, SkipRefusedError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.observing.actions import ActionKind, Actor, ActorKind, UserAction


def live(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline skips what is lost, twice, and goes on; and rows that were read are never skipped."""
    store = MemoryCheckpointStore()
    world = Reading.that_has_lost(store, monkeypatch)
    world.ask("r2")
    world.ask("behind it")
    asked = UserAction("g1", ActionKind.SKIP, Actor(ActorKind.CLI_USER, "ada", "here"))
    world.coordinator.skip("src", None, asked)
    assert world.record(2).status is Status.FAILED, "what is in progress began at positions that hold no more"
    with store.transaction("p") as tx:
        assert tx.audited("g1") is not None
        assert all(request.dropped for request in tx.requests()), "a request waits for positions that hold no more"
    world.topic.first = [6, 0]
    plan = world.coordinator.skipping.plan("src")
    world.coordinator.skip("src", plan)
    refused(lambda: world.coordinator.skip("src", plan), "a plan holds for one moment")
    taken = world.take("r3")
    assert world.read[taken, 0] == range(6, 9)
    assert world.task.restored[SPLITS[0]].position.get("event_time") == 1, "event time begins anew"

    world.topic.ends = [12, 12]
    segment = {"part": 0, "from": 6, "to": 9}
    world.flight = [["src/0", {"split": 0, "reference": segment, "bytes": 9}]]
    assert world.read[world.take("r4"), 0] == range(9, 12), "a skip counts for its own checkpoint alone"
    world.topic.first, world.flight = [8, 0], ()
    world.coordinator.skip("src")
    world.topic.ends = [15, 15]
    world.take("r5")
    [[_, left]] = world.task.restored[OP].position["in_flight"]
    assert left["reference"] == {"part": 0, "from": 8, "to": 9}

    world.topic.ends = [18, 18]
    world.ask("r6")
    world.snapshot(world.store.history("p", 1)[0].checkpoint_id)
    world.topic.first = [17, 0]
    refused(lambda: world.coordinator.skip("src"), "the checkpoint in progress has read them")
    world.coordinator.abort(world.store.history("p", 1)[0].checkpoint_id, doing.FailureReason.TASK_FAILURE, "enough")
    world.coordinator.start_region()
    refused(lambda: world.coordinator.skip("src"), "a region is alive")


def refused(skip: Callable[[], Any], why: str) -> None:
    try:
        skip()
    except SkipRefusedError:
        return
    raise AssertionError(why)


def of_any_checkpoint(original: Any) -> Any:
    return lambda snapshots, checkpoint_id, skips: original(
        snapshots, checkpoint_id, [replace(skip, checkpoint_id=checkpoint_id) for skip in skips]
    )


def the_oldest_counts(original: Any) -> Any:
    return lambda snapshots, checkpoint_id, skips: original(snapshots, checkpoint_id, list(skips)[::-1])


def without_checks(original: Any) -> Any:
    return lambda source, pipeline, latest, in_progress, has_live_region: latest


def whatever_is_in_progress(original: Any) -> Any:
    return lambda source, pipeline, latest, in_progress, is_live: original(source, pipeline, latest, (), is_live)


def whatever_runs(original: Any) -> Any:
    return lambda source, pipeline, latest, in_progress, is_live: original(source, pipeline, latest, in_progress, False)


def position_alone(original: Any) -> Any:
    """What else a split's snapshot says is forgotten."""
    return lambda self, vertex, connector, facts: [
        replace(skip, position={name: value for name, value in skip.position.items() if name != "event_time"})
        for skip in original(self, vertex, connector, facts)
    ]


def nothing(original: Any) -> Any:
    return lambda *arguments, **named: None


def none_found(original: Any) -> Any:
    return lambda *arguments, **named: []


MISTAKES: list[tuple[Any, str, Callable[[Any], Any]]] = [
    (lookup, "apply_skips", lambda original: lambda snapshots, checkpoint_id, skips: snapshots),
    (lookup, "apply_skips", of_any_checkpoint),
    (lookup, "apply_skips", the_oldest_counts),
    (doing, "abort_all", nothing),
    (doing, "require_as_planned", nothing),
    (doing, "require_skippable", without_checks),
    (doing, "require_skippable", whatever_is_in_progress),
    (doing, "require_skippable", whatever_runs),
    (doing.AuditEntry, "done", nothing),
    (doing.Skipping, "_in_flight", none_found),
    (doing.Skipping, "_of_splits", position_alone),
]


def test_lost_rows_are_skipped_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    live(monkeypatch)


@pytest.mark.parametrize(("where", "name", "mistake"), MISTAKES)
def test_a_mistake_is_noticed(where: Any, name: str, mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(where, name, mistake(getattr(where, name)))
    with pytest.raises((AssertionError, CheckpointError)):
        live(monkeypatch)
