"""The reads of a transaction on one pipeline: the port's facts, as of the lock that it holds on the pipeline's row."""

from collections.abc import Callable, Hashable, Iterable
from datetime import datetime
from typing import Any, TypeVar, cast

from sqlalchemy import Connection

from tidegate.postgres import audit, lag, pipeline_rows, reads, restore_plans, rollup, snapshots
from tidegate.postgres.pipeline_rows import Locked
from tidegate.postgres.rows import committer_record, pipeline_record, region_record
from tidegate.protocol.continuous.regions import RegionRecord
from tidegate.protocol.facts.branches import Restore
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineRecord
from tidegate.protocol.facts.records import (
    CheckpointRecord,
    CheckpointRequest,
    CompactedRun,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.observing.actions import AuditRecord
from tidegate.protocol.observing.lag import SourceLag
from tidegate.protocol.recovery.identity import Endpoint
from tidegate.protocol.recovery.restores_on_pages import PlannedRestore
from tidegate.protocol.recovery.skipping import SourceSkip
from tidegate.protocol.steps.committing import CommitterRecord

Fact = TypeVar("Fact")


#: Cached facts about several checkpoints, which a write to any of them makes stale. Facts about the pipeline stay until
#: they are written themselves.
_OF_CHECKPOINTS = ("in progress", "unnotified", "latest", "completed", "cleaning", "unswept")
#: Cached facts about one checkpoint, with its name.
_OF_ONE = ("checkpoint", "request")


def is_of_checkpoints(what: Hashable) -> bool:
    return what in _OF_CHECKPOINTS or (isinstance(what, tuple) and what[0] in _OF_ONE)


class Facts:
    """The facts of one transaction. The pipeline, its region, its committer and the requested extras are read with the
    lock. All others are read when needed, most of them together (see `pipeline_rows`). Each is read only once until the
    transaction writes it, because no other process writes while the lock is held."""

    def __init__(self, connection: Connection, locked: Locked) -> None:
        self._connection = connection
        self._pipeline: PipelineRecord = pipeline_record(locked.pipeline)
        self._pipeline_id = self._pipeline.pipeline_id
        self._last_checkpoint_id: int = locked.pipeline["last_checkpoint_id"]
        self._region: RegionRecord = region_record(locked.pipeline)
        self._committer: CommitterRecord = committer_record(locked.pipeline)
        self._known: dict[Hashable, Any] = locked.known

    def checkpoint(self, checkpoint_id: int) -> CheckpointRecord | None:
        if (record := self._known_record(checkpoint_id)) is not None:
            return record
        if checkpoint_id == self._last_checkpoint_id and "in progress" not in self._known:
            self._prefetched("in progress")  # the newest one is usually the one in progress
            return self.checkpoint(checkpoint_id)
        return self._once(
            ("checkpoint", checkpoint_id), lambda: reads.checkpoint(self._connection, self._pipeline_id, checkpoint_id)
        )

    def _known_record(self, checkpoint_id: int) -> CheckpointRecord | None:
        """Return the checkpoint from the cache, without a query."""
        cached = (self._known.get(what, ()) for what in ("completed", "in progress", "unnotified"))
        matches = (record for records in cached for record in records if record.checkpoint_id == checkpoint_id)
        latest = self._known.get("latest")
        if latest is not None and latest.checkpoint_id == checkpoint_id:
            return cast(CheckpointRecord, latest)
        return next(matches, None) or self._known.get(("checkpoint", checkpoint_id))

    def latest_by_request(self, request_id: str) -> CheckpointRecord | None:
        key = ("request", request_id)
        return self._once(key, lambda: reads.latest_by_request(self._connection, self._pipeline_id, request_id))

    def in_progress(self) -> list[CheckpointRecord]:
        return list(self._prefetched("in progress"))

    def unnotified(self) -> list[CheckpointRecord]:
        return list(self._prefetched("unnotified"))

    def retained(self) -> list[CheckpointRecord]:
        return [record for record in self._completed() if record.abandoned_by is None]

    def abandoned(self) -> list[CheckpointRecord]:
        return [record for record in self._completed() if record.abandoned_by is not None]

    def lag(self) -> list[SourceLag]:
        return lag.lag_of(self._connection, self._pipeline_id)

    def restores(self) -> list[Restore]:
        return list(self._prefetched("restores"))

    def skips(self) -> list[SourceSkip]:
        return list(self._prefetched("skips"))

    def named(self, name: str) -> CheckpointRecord | None:
        return reads.named(self._connection, self._pipeline_id, name)

    def written_to(self, location: str) -> list[CheckpointRecord]:
        return reads.written_to(self._connection, self._pipeline_id, location)

    def last_checkpoint_id(self) -> int:
        return self._last_checkpoint_id

    def latest_completed(self) -> CheckpointRecord | None:
        if "completed" in self._known:
            return max(self.retained(), key=lambda record: record.checkpoint_id, default=None)
        return cast("CheckpointRecord | None", self._prefetched("latest"))

    def subtasks(self, checkpoint_id: int, only: Iterable[SubtaskId] | None = None) -> dict[SubtaskId, SubtaskRecord]:
        key = ("subtasks", checkpoint_id)
        if only is None and key in self._known:  # from the attempt that has just begun
            return dict(self._known[key])
        record = self._known_record(checkpoint_id)
        return snapshots.subtasks_of(self._connection, self._pipeline_id, checkpoint_id, only, record)

    def verdicts(self, checkpoint_id: int) -> list[Verdict]:
        key = ("verdicts", checkpoint_id)
        return list(self._once(key, lambda: reads.verdicts_of(self._connection, self._pipeline_id, checkpoint_id)))

    def compactions(self) -> list[CompactedRun]:
        if self._known.get("compacted") is False:
            return []
        return reads.compactions_of(self._connection, self._pipeline_id)

    def pipeline(self) -> PipelineRecord:
        return self._pipeline

    def requests(self) -> list[CheckpointRequest]:
        return list(self._prefetched("requests"))

    def failed_after(self, checkpoint_id: int) -> list[CheckpointRecord]:
        return reads.failed_after(self._connection, self._pipeline_id, checkpoint_id)

    def endpoints(self) -> list[Endpoint]:
        return list(self._prefetched("endpoints"))

    def cleaning(self) -> int:
        return int(self._prefetched("cleaning"))

    def region(self) -> RegionRecord:
        return self._region

    def committer(self) -> CommitterRecord:
        return self._committer

    def latest_subsumed(self) -> int | None:
        return reads.latest_subsumed(self._connection, self._pipeline_id)

    def unswept(self) -> dict[int, datetime]:
        ended = self._imports()[1]
        ended |= self._once("unswept", lambda: reads.unswept(self._connection, self._pipeline_id))
        return {id_: ended[id_] for id_ in sorted(ended)}

    def not_rolled_up(self, limit: int) -> list[CheckpointRecord]:
        return rollup.not_rolled_up(self._connection, self._pipeline_id, limit)

    def imports(self) -> dict[int, datetime]:
        return self._imports()[0]

    def audited(self, request_id: str) -> AuditRecord | None:
        return audit.find(self._connection, self._pipeline_id, request_id)

    def planned_restore(self, request_id: str) -> PlannedRestore | None:
        return restore_plans.find(self._connection, self._pipeline_id, request_id)

    def _completed(self) -> list[CheckpointRecord]:
        """Return the completed checkpoints, including abandoned ones."""
        completed = Status.COMPLETED
        return self._once("completed", lambda: reads.with_status(self._connection, self._pipeline_id, completed))

    def _imports(self) -> tuple[dict[int, datetime], dict[int, datetime]]:
        under_way, ended = self._prefetched("imports")
        return dict(under_way), dict(ended)

    def _prefetched(self, what: str) -> Any:
        if what not in self._known:
            self._known = pipeline_rows.read(self._connection, self._pipeline_id) | self._known
        return self._known[what]

    def _once(self, what: Hashable, read: Callable[[], Fact]) -> Fact:
        if what not in self._known:
            self._known[what] = read()
        return cast(Fact, self._known[what])
