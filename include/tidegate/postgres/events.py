"""The queue of events of a pipeline, and the deliveries of each notifier."""

from collections.abc import Collection, Hashable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Row, text, update

from tidegate.postgres.facts import Facts, is_of_checkpoints
from tidegate.postgres.tables import pipelines
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.observing.events import Event, EventKind, Undelivered
from tidegate.protocol.text.storable import storable_text

if TYPE_CHECKING:
    from sqlalchemy import CursorResult, Executable

LIMIT = 100

_ADD = text("""
INSERT INTO tidegate.events (pipeline_id, kind, at, message, checkpoint_id, reason)
VALUES (:pipeline_id, :kind, :at, :message, :checkpoint_id, :reason)
""")

_UNDELIVERED = text("""
SELECT e.number, e.kind, e.at, e.message, e.checkpoint_id, e.reason, d.attempts, d.again_at, d.refused
FROM tidegate.events e
LEFT JOIN tidegate.event_deliveries d
    ON d.pipeline_id = e.pipeline_id AND d.number = e.number AND d.notifier = :notifier
WHERE e.pipeline_id = :pipeline_id AND e.kind = ANY (CAST(:kinds AS text[])) AND e.at >= :since
    AND d.delivered_at IS NULL
ORDER BY e.number LIMIT :limit
""")

_BEGIN = text("""
INSERT INTO tidegate.event_deliveries AS d (pipeline_id, number, notifier, attempts, again_at)
VALUES (:pipeline_id, :number, :notifier, 1, :again_at)
ON CONFLICT (pipeline_id, number, notifier) DO UPDATE SET
    attempts = d.attempts + 1, again_at = excluded.again_at, refused = false
""")

_REFUSE = text("""
UPDATE tidegate.event_deliveries SET refused = true
WHERE pipeline_id = :pipeline_id AND number = :number AND notifier = :notifier
""")

_END = text("""
UPDATE tidegate.event_deliveries SET delivered_at = :at
WHERE pipeline_id = :pipeline_id AND number = :number AND notifier = :notifier AND delivered_at IS NULL
""")

_FORGET_ONE = text("DELETE FROM tidegate.events WHERE pipeline_id = :pipeline_id AND number = :number")
_FORGET_OLD = text("DELETE FROM tidegate.events WHERE pipeline_id = :pipeline_id AND at < :before")


class Events(Facts):
    """The events of a transaction. `wrote`: whether anything was changed. `touched`: whether a change was made that
    sends no NOTIFY. A write clears the cached facts, unless it names the ones it changed: by `_has_moved`, `_is_now`
    or `_has_written`."""

    _wrote = False
    _touched = False

    @property
    def wrote(self) -> bool:
        return self._wrote

    @wrote.setter
    def wrote(self, wrote: bool) -> None:
        self._wrote = wrote
        self._known.clear()

    @property
    def touched(self) -> bool:
        return self._touched

    @touched.setter
    def touched(self, touched: bool) -> None:
        self._touched = touched
        self._known.clear()

    def _has_moved(self, *records: CheckpointRecord) -> None:
        """Record that checkpoints were written, among them these, in their new state."""
        self._wrote = True
        self._known = {what: fact for what, fact in self._known.items() if not is_of_checkpoints(what)}
        self._known |= {("checkpoint", record.checkpoint_id): record for record in records}

    def _is_now(self, record: CheckpointRecord) -> None:
        """Record that this checkpoint was written, and no other one."""
        self._wrote = True
        is_present = record.status is Status.COMPLETED and record.abandoned_by is None
        belongs = {
            "in progress": record.status is Status.IN_PROGRESS,
            "unnotified": is_present and record.notified_at is None,
            "completed": record.status is Status.COMPLETED,
        }
        for what in belongs.keys() & self._known.keys():
            others = [known for known in self._known[what] if known.checkpoint_id != record.checkpoint_id]
            current = [*others, record] if belongs[what] else others
            self._known[what] = sorted(current, key=lambda known: known.checkpoint_id)
        self._known = {what: fact for what, fact in self._known.items() if what != "unswept" and not _is_answer(what)}
        latest = self._known.get("latest")
        if is_present and "latest" in self._known and (latest is None or latest.checkpoint_id <= record.checkpoint_id):
            self._known["latest"] = record
        self._known["checkpoint", record.checkpoint_id] = record

    def _are_subsumed(self, checkpoint_ids: Collection[int]) -> None:
        """Record that these checkpoints, completed until now, are subsumed."""
        self._wrote = True
        gone = {("checkpoint", checkpoint_id) for checkpoint_id in checkpoint_ids}
        self._known = {what: fact for what, fact in self._known.items() if what not in gone and not _is_answer(what)}
        for what in {"completed", "unnotified"} & self._known.keys():
            self._known[what] = [known for known in self._known[what] if known.checkpoint_id not in checkpoint_ids]
        if "cleaning" in self._known:
            self._known["cleaning"] += len(checkpoint_ids)
        latest = self._known.get("latest")
        if latest is not None and latest.checkpoint_id in checkpoint_ids:
            del self._known["latest"]

    def _has_written(self, *facts: str) -> None:
        """Forget only these of the cached facts."""
        self._wrote = True
        for fact in facts:
            self._known.pop(fact, None)

    def add_event(
        self,
        kind: EventKind,
        message: str,
        at: datetime,
        checkpoint_id: int | None = None,
        reason: FailureReason | None = None,
    ) -> None:
        self._has_written()
        self._of_events(
            _ADD,
            kind=kind.value,
            at=at,
            message=storable_text(message),
            checkpoint_id=checkpoint_id,
            reason=None if reason is None else reason.name,
        )

    def undelivered(self, notifier: str, kinds: Collection[EventKind], since: datetime) -> list[Undelivered]:
        wanted = [kind.value for kind in kinds]
        rows = self._of_events(_UNDELIVERED, notifier=notifier, kinds=wanted, since=since, limit=LIMIT)
        return [_undelivered(self._pipeline_id, row) for row in rows]

    def begin_delivery(self, notifier: str, number: int, again_at: datetime) -> None:
        self.touched = True
        self._of_events(_BEGIN, notifier=notifier, number=number, again_at=again_at)

    def refuse_delivery(self, notifier: str, number: int) -> None:
        self.touched = True
        self._of_events(_REFUSE, notifier=notifier, number=number)

    def end_delivery(self, notifier: str, number: int, at: datetime) -> None:
        self.touched = True
        self._of_events(_END, notifier=notifier, number=number, at=at)

    def forget_event(self, number: int) -> None:
        self.touched = True
        self._of_events(_FORGET_ONE, number=number)

    def forget_events(self, before: datetime) -> None:
        self.touched = True
        self._of_events(_FORGET_OLD, before=before)

    def mark_stale(self, since: datetime | None) -> None:
        self.wrote = True
        self._pipeline = replace(self._pipeline, stale_since=since)
        row = pipelines.c.pipeline_id == self._pipeline_id
        self._connection.execute(update(pipelines).where(row).values(stale_since=since))

    def _of_events(self, statement: "Executable", **parameters: Any) -> "CursorResult[Any]":
        return self._connection.execute(statement, {"pipeline_id": self._pipeline_id, **parameters})


def _is_answer(what: Hashable) -> bool:
    """Whether a cached fact is the checkpoint of a request, which a change of any checkpoint may affect."""
    return isinstance(what, tuple) and what[0] == "request"


def _undelivered(pipeline_id: str, row: Row[Any]) -> Undelivered:
    at = row.at.astimezone(UTC)
    return Undelivered(
        Event(pipeline_id, row.number, EventKind(row.kind), at, row.message, row.checkpoint_id, row.reason),
        row.attempts or 0,
        None if row.again_at is None else row.again_at.astimezone(UTC),
        bool(row.refused),
    )
