"""What a pipeline's sinks have still to do, and what goes along when they do it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.coordination.steps.commit_attempts import Turn
from tidegate.ports import DeliveryGuarantee, StoreTransaction
from tidegate.protocol.facts.branches import Restore, find_unfinished
from tidegate.protocol.facts.records import CheckpointRecord, SubtaskId, SubtaskRecord
from tidegate.protocol.steps.notify import choose_unnotified

Subtasks = Mapping[SubtaskId, SubtaskRecord]


@dataclass(frozen=True, slots=True)
class Delivered:
    """What one sink made visible with a checkpoint."""

    sink: str
    checkpoint_id: int
    rows: int
    guarantee: DeliveryGuarantee


@dataclass(frozen=True, slots=True)
class Outstanding:
    """What a pipeline's sinks have still to do: first go back with a restore, then commit, oldest checkpoint first."""

    restores: Sequence[Restore]
    unnotified: Sequence[CheckpointRecord]
    subtasks: Mapping[int, Subtasks] = field(default_factory=dict)  # those that were read
    turn: Turn | None = None  # of the first checkpoint's commit, if somebody has looked in the same transaction

    @property
    def restore(self) -> Restore | None:
        return find_unfinished(self.restores)

    def __bool__(self) -> bool:
        return self.restore is not None or bool(self.unnotified)


def find_outstanding(tx: StoreTransaction, up_to: int | None = None) -> Outstanding:
    """As far as the checkpoint `up_to`, if given."""
    return Outstanding(tx.restores(), choose_unnotified(tx.unnotified(), up_to))


class CleansAlong(Protocol):
    """One cleaning in the steps of a notification: `look` in its first transaction, `delete` while no transaction is
    open, `record` in its last one, and `end` after it. Each may be left out; `end` then makes up for it."""

    def look(self, tx: StoreTransaction) -> None: ...

    def delete(self) -> None: ...

    def record(self, tx: StoreTransaction) -> None: ...

    def refused(self) -> bool:
        """Whether something was to be recorded that may have been refused: it is not tried along any more."""

    def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Begun:
    """A delivery that has begun in the transaction that completed its checkpoint, or in the one that looked at it."""

    outstanding: Outstanding
    subtasks: Subtasks
    cleaning: CleansAlong
