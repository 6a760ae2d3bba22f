"""The abort step: whether a checkpoint can still be given up (protocol.md section 7)."""

from dataclasses import dataclass

from tidegate.protocol.lifecycle import Status
from tidegate.protocol.records import CheckpointRecord


@dataclass(frozen=True, slots=True)
class Abort:
    """It is in progress: fail it, with the reason given."""


@dataclass(frozen=True, slots=True)
class AlreadyEnded:
    """It failed before (the first reason stands) or completed (which nothing undoes): do nothing."""

    record: CheckpointRecord


def decide_abort(record: CheckpointRecord) -> Abort | AlreadyEnded:
    """Performs no I/O."""
    return Abort() if record.status is Status.IN_PROGRESS else AlreadyEnded(record)
