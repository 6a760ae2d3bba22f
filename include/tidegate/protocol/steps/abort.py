"""The abort step: whether a checkpoint can still be aborted (protocol.md section 7)."""

from dataclasses import dataclass

from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import CheckpointRecord


@dataclass(frozen=True, slots=True)
class Abort:
    """The checkpoint is in progress: fail it with the given reason."""


@dataclass(frozen=True, slots=True)
class AlreadyEnded:
    """The checkpoint has failed (the first reason stands) or completed (nothing undoes that): do nothing."""

    record: CheckpointRecord


def decide_abort(record: CheckpointRecord) -> Abort | AlreadyEnded:
    """Decide whether the checkpoint can be aborted. Performs no I/O."""
    return Abort() if record.status is Status.IN_PROGRESS else AlreadyEnded(record)
