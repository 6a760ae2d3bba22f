"""The writes of a transaction about the pipeline as a whole: its status, requests, region and restores, and the exports
and imports of savepoints."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, delete, insert, select, text, update
from sqlalchemy.dialects import postgresql

from tidegate.postgres import audit, lag, restore_plans
from tidegate.postgres import imports as importing
from tidegate.postgres import restores as restoring
from tidegate.postgres.events import Events
from tidegate.postgres.rows import (
    committer_values,
    readable,
    region_values,
    request_values,
    skip_values,
)
from tidegate.postgres.tables import checkpoints, pipelines, requests, source_skips
from tidegate.protocol.continuous import regions
from tidegate.protocol.continuous.regions import RegionRecord, begun, ended, is_current
from tidegate.protocol.facts.branches import Branch, Restore
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus, moved, require_move, restored
from tidegate.protocol.facts.records import (
    CheckpointRequest,
)
from tidegate.protocol.observing.actions import ActionAnswer, AuditRecord, UserAction
from tidegate.protocol.observing.lag import SourceLag
from tidegate.protocol.recovery.identity import Endpoint
from tidegate.protocol.recovery.restores_on_pages import PlannedRestore
from tidegate.protocol.recovery.skipping import SourceSkip
from tidegate.protocol.steps import committing
from tidegate.protocol.steps.committing import is_committing
from tidegate.protocol.text.storable import storable_text

if TYPE_CHECKING:
    from sqlalchemy import CursorResult, Executable

_RECORD_ENDPOINT = text("""
INSERT INTO tidegate.endpoints AS e (pipeline_id, role, name, type, place, recorded_at)
VALUES (:pipeline_id, :role, :name, :type, :place, :recorded_at)
ON CONFLICT (pipeline_id, role, name) DO UPDATE SET
    type = excluded.type, place = excluded.place, recorded_at = excluded.recorded_at, place_before = e.place
""")

_RECORD_DAG = text("""
INSERT INTO tidegate.pipeline_dags AS d (pipeline_id, dag_id, last_seen_at) VALUES (:pipeline_id, :dag_id, :at)
ON CONFLICT (pipeline_id, dag_id) DO UPDATE SET last_seen_at = greatest(d.last_seen_at, excluded.last_seen_at)
""")


class PipelineWrites(Events):
    """The pipeline's own row, and rows that belong to the pipeline rather than to one of its checkpoints."""

    def record_action(self, action: UserAction, answer: ActionAnswer, at: datetime) -> AuditRecord:
        self.wrote = True
        return audit.record(self._connection, self._pipeline_id, action, answer, at)

    def put_planned_restore(self, planned: PlannedRestore) -> None:
        self.wrote = True
        restore_plans.put(self._connection, planned)

    def move_pipeline(
        self, after: PipelineStatus, at: datetime, message: str | None = None, forgiven_until: int | None = None
    ) -> None:
        require_move(self._pipeline, after)
        sentence = readable(message)
        self._pipeline = moved(self._pipeline, after, at, sentence, forgiven_until)
        self._update_pipeline(
            status=after.value, since=at, message=sentence, forgiven_until=self._pipeline.forgiven_until
        )

    def record_endpoints(self, endpoints_: Sequence[Endpoint], at: datetime) -> None:
        for endpoint in endpoints_:
            self._execute(_RECORD_ENDPOINT, **asdict(endpoint), recorded_at=at)

    def record_skips(self, skips: Sequence[SourceSkip]) -> None:
        self._has_written("skips")
        values = [{"pipeline_id": self._pipeline_id, **skip_values(skip)} for skip in skips]
        self._connection.execute(insert(source_skips), values)

    def record_dag(self, dag_id: str, at: datetime) -> None:
        self._touched = True  # not read by a transaction's facts
        values = {"pipeline_id": self._pipeline_id, "dag_id": dag_id, "at": at}
        self._connection.execute(_RECORD_DAG, values)

    def record_lag(self, lags: Sequence[SourceLag]) -> None:
        self.touched = True
        lag.record(self._connection, self._pipeline_id, lags)

    def put_request(self, request: CheckpointRequest) -> None:
        self._has_written("requests")
        values = {"pipeline_id": self._pipeline_id, **request_values(request)}
        put = postgresql.insert(requests).values(**values)
        self._connection.execute(put.on_conflict_do_update(constraint="requests_pkey", set_=values))

    def touch_request(self, request_id: str, at: datetime) -> None:
        self.touched = True
        row = (requests.c.pipeline_id == self._pipeline_id) & (requests.c.request_id == request_id)
        self._connection.execute(update(requests).where(row).values(seen_at=at))

    def remove_requests(self, request_ids: Sequence[str]) -> None:
        removed = delete(requests).where(
            requests.c.pipeline_id == self._pipeline_id, requests.c.request_id.in_(request_ids)
        )
        if self._connection.execute(removed).rowcount > 0:
            self._has_written("requests")

    def begin_region(self, at: datetime) -> int:
        self._put_region(begun(self._region, at))
        return self._region.attempt

    def touch_region(self, attempt: int, at: datetime) -> bool:
        return is_current(self._region, attempt) and self._put_region(replace(self._region, seen_at=at))

    def end_region(self, attempt: int, at: datetime) -> bool:
        return is_current(self._region, attempt) and self._put_region(ended(self._region, at))

    def _put_region(self, region: RegionRecord) -> bool:
        self._region = region
        return self._update_pipeline(**region_values(region))

    def record_restore(self, checkpoint_id: int, at: datetime) -> None:
        self._update_pipeline(restores=pipelines.c.restores + 1, restored_checkpoint=checkpoint_id, restored_at=at)

    def begin_restore(self, restore: Restore, present: Branch, message: str, forgiven_until: int) -> None:
        sentence = storable_text(message)
        self._pipeline = restored(self._pipeline, restore.restored_at, sentence, forgiven_until)
        self._update_pipeline(
            status=self._pipeline.status.value,
            since=self._pipeline.since,
            message=sentence,
            forgiven_until=self._pipeline.forgiven_until,
            last_restore=restore.number,
        )
        self.wrote = True
        restoring.record(self._connection, self._pipeline_id, restore, present)

    def mark_rewound(self, number: int, attempt: int, at: datetime) -> bool:
        if not is_committing(self._committer, attempt):
            return False
        self.wrote = True
        restoring.mark_rewound(self._connection, self._pipeline_id, number, at)
        return True

    def begin_export(self, checkpoint_id: int, location: str) -> None:
        self.wrote = True
        self._connection.execute(update(checkpoints).where(self._is(checkpoint_id)).values(location=location))

    def mark_exported(self, checkpoint_id: int, size: int, at: datetime) -> bool:
        values = {"exported_at": at, "exported_size": size}
        row = self._is(checkpoint_id) & (checkpoints.c.status == Status.COMPLETED.value)
        self._connection.execute(update(checkpoints).where(row, checkpoints.c.exported_at.is_(None)).values(**values))
        self.wrote = True
        return self._connection.execute(select(checkpoints.c.exported_at).where(row)).scalar() is not None

    def begin_import(self, after: int, at: datetime) -> int:
        self._last_checkpoint_id = max(self._last_checkpoint_id, after) + 1
        self._update_pipeline(last_checkpoint_id=self._last_checkpoint_id)
        self._has_written("imports")
        importing.begin(self._connection, self._pipeline_id, self._last_checkpoint_id, at)
        return self._last_checkpoint_id

    def touch_import(self, checkpoint_id: int, at: datetime) -> bool:
        self.touched = True
        return importing.touch(self._connection, self._pipeline_id, checkpoint_id, at)

    def end_import(self, checkpoint_id: int, at: datetime) -> bool:
        self.wrote = True
        return importing.end(self._connection, self._pipeline_id, checkpoint_id, at)

    def next_checkpoint_id(self) -> int:
        self._last_checkpoint_id += 1
        return self._last_checkpoint_id

    def reserve_numbers(self, checkpoint_id: int, region_attempt: int, commit_attempt: int, at: datetime) -> None:
        self._last_checkpoint_id = max(self._last_checkpoint_id, checkpoint_id)
        self._region = regions.reserved(self._region, region_attempt, at)
        self._committer = committing.reserved(self._committer, commit_attempt)
        self._update_pipeline(
            last_checkpoint_id=self._last_checkpoint_id,
            **region_values(self._region),
            **committer_values(self._committer),
        )

    def _is(self, checkpoint_id: int) -> ColumnElement[bool]:
        return (checkpoints.c.pipeline_id == self._pipeline_id) & (checkpoints.c.checkpoint_id == checkpoint_id)

    def _update_pipeline(self, **values: Any) -> bool:
        self._has_written()
        self._connection.execute(update(pipelines).where(pipelines.c.pipeline_id == self._pipeline_id).values(**values))
        return True

    def _execute(self, statement: "Executable", **parameters: Any) -> "CursorResult[Any]":
        self.wrote = True
        return self._connection.execute(statement, {"pipeline_id": self._pipeline_id, **parameters})
