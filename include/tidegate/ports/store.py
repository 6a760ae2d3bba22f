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
    def now(self) -> datetime:
        """The wall clock, timezone-aware UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment; unlike the wall clock it never goes back, so it measures durations."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block until that much time has passed."""
        ...


@dataclass(frozen=True, slots=True)
class Prefetch:
    """What a transaction is about to ask, so that a store may read it together with the lock. It changes no answer:
    what is not named here is read when it is asked for. What is under way always belongs to it; beside that, the
    checkpoint of `request_id`, and all that are `completed`."""

    request_id: str | None = None
    completed: bool = False


class CheckpointStore(Protocol):
    """Durable record of checkpoints. After `transaction` exits normally, everything in it is durable; after it raises,
    nothing is, except after `UnknownOutcomeError`: then read again to find out. `StoreUnavailableError` means that
    nothing happened.
    """

    def transaction(
        self, pipeline_id: str, prefetch: Prefetch | None = None, participants: Sequence[Participant] = ()
    ) -> AbstractContextManager[StoreTransaction]:
        """One that is about to read checkpoints says so with `prefetch`. Participants run first, before anybody has to
        wait for the lock: they may take minutes. Who then finds that their rows are not to be shown raises, and nothing
        of the transaction is kept.

        Raises what participants raise.
        """
        ...

    def identity(self) -> str:
        """Distinguishes this database from every other one, and stays with it through a dump or a backup."""
        ...

    def pipelines(self) -> list[str]: ...
    def pipeline(self, pipeline_id: str) -> PipelineRecord | None:
        """None if nothing was ever recorded about it."""
        ...

    def region(self, pipeline_id: str) -> RegionRecord: ...
    def checkpoint(self, pipeline_id: str, checkpoint_id: int) -> CheckpointRecord | None: ...
    def history(self, pipeline_id: str, limit: int) -> list[CheckpointRecord]:
        """Newest first."""
        ...

    def completed(self, pipeline_id: str) -> list[CheckpointRecord]:
        """All with status COMPLETED, also those that a restore has left behind, oldest first."""
        ...

    def figures(self, pipeline_id: str) -> LatestFigures:
        """What metrics are made of. Asked after every checkpoint, so it reads no history."""
        ...

    def subtasks(self, pipeline_id: str, checkpoint_id: int) -> dict[SubtaskId, SubtaskRecord]: ...
    def verdicts(self, pipeline_id: str, checkpoint_id: int) -> list[Verdict]: ...
    def audit(self, pipeline_id: str | None, limit: int, before: int | None = None) -> list[AuditRecord]:
        """What people have asked for, newest first: of one pipeline, or of all and the database itself. `before` is a
        number: only what is older."""
        ...

    def wait_for_change(self, pipeline_id: str, timeout: float) -> bool:
        """Block until something about the pipeline was committed (True) or `timeout` seconds passed (False)."""
        ...

    def wait_for_changes(self, pipeline_ids: Collection[str], timeout: float) -> set[str]:
        """The same for several: those about which something was committed, none if the time passed."""
        ...
