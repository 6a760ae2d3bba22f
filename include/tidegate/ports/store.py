"""The store where checkpoints are recorded, and the clock."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from tidegate.ports.commit_participants import Participant
from tidegate.ports.transaction import StoreTransaction
from tidegate.protocol.continuous.regions import RegionRecord
from tidegate.protocol.facts.pipelines import PipelineRecord
from tidegate.protocol.facts.records import (
    CheckpointRecord,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.observing.actions import AuditRecord
from tidegate.protocol.observing.statistics import LatestFigures


class Clock(Protocol):
    """The clock of this process."""

    def now(self) -> datetime:
        """Read the wall clock, timezone-aware UTC."""
        ...

    def monotonic(self) -> float:
        """Return the seconds since some moment. Unlike the wall clock it never goes back, so it measures durations."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block until that much time has passed."""
        ...


@dataclass(frozen=True, slots=True)
class Prefetch:
    """The rows that a transaction is about to read, so that a store may read them together with the lock. It changes no
    answer: other rows are read when they are needed. Checkpoints in progress are always read; so is the checkpoint of
    `request_id`, and with `completed` all completed ones."""

    request_id: str | None = None
    completed: bool = False


class CheckpointStore(Protocol):
    """The durable record of checkpoints. After `transaction` exits normally, everything in it is durable. After it
    raises, nothing is. After `UnknownOutcomeError` the outcome is unknown: read again to find out.
    `StoreUnavailableError` means that nothing happened.
    """

    def transaction(
        self, pipeline_id: str, prefetch: Prefetch | None = None, participants: Sequence[Participant] = ()
    ) -> AbstractContextManager[StoreTransaction]:
        """Open a transaction. With `prefetch` it names the rows that it is about to read. Participants run first,
        before the lock is taken, because they may take minutes. If their rows must then not be shown, the caller raises
        an error, and the transaction is rolled back.

        Errors of participants pass through.
        """
        ...

    def identity(self) -> str:
        """Return the id of this database. It differs from that of every other one, and survives a dump or a backup."""
        ...

    def pipelines(self) -> list[str]: ...
    def pipeline(self, pipeline_id: str) -> PipelineRecord | None:
        """Return the pipeline's row; None if nothing was ever recorded about it."""
        ...

    def region(self, pipeline_id: str) -> RegionRecord: ...
    def checkpoint(self, pipeline_id: str, checkpoint_id: int) -> CheckpointRecord | None: ...
    def history(self, pipeline_id: str, limit: int) -> list[CheckpointRecord]:
        """Return the pipeline's checkpoints, newest first."""
        ...

    def completed(self, pipeline_id: str) -> list[CheckpointRecord]:
        """Return all checkpoints with status COMPLETED, those that a restore has left behind included, oldest first."""
        ...

    def figures(self, pipeline_id: str) -> LatestFigures:
        """Return the figures behind the metrics. It is called after every checkpoint, so it reads no history."""
        ...

    def subtasks(self, pipeline_id: str, checkpoint_id: int) -> dict[SubtaskId, SubtaskRecord]: ...
    def verdicts(self, pipeline_id: str, checkpoint_id: int) -> list[Verdict]: ...
    def audit(self, pipeline_id: str | None, limit: int, before: int | None = None) -> list[AuditRecord]:
        """Return the audit entries of one pipeline, or of all pipelines and the database itself, newest first. With
        `before`, return only entries with a lower number."""
        ...

    def wait_for_change(self, pipeline_id: str, timeout: float) -> bool:
        """Block until something about the pipeline was committed (True) or `timeout` seconds passed (False)."""
        ...

    def wait_for_changes(self, pipeline_ids: Collection[str], timeout: float) -> set[str]:
        """Block as `wait_for_change`, for several pipelines. Return those with a change; none if the time passed."""
        ...
