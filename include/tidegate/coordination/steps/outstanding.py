"""The unfinished work of a pipeline's sinks, and the cleaning that runs along with it."""

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
    """The rows that one sink made visible with a checkpoint."""

    sink: str
    checkpoint_id: int
    rows: int
    guarantee: DeliveryGuarantee


@dataclass(frozen=True, slots=True)
class Outstanding:
    """The unfinished work of a pipeline's sinks: first rewind with a restore, then commit, oldest checkpoint first."""

    restores: Sequence[Restore]
    unnotified: Sequence[CheckpointRecord]
    subtasks: Mapping[int, Subtasks] = field(default_factory=dict)  # by checkpoint, as far as they were read
    turn: Turn | None = None  # of the first checkpoint's commit, if it was read in the same transaction

    @property
    def restore(self) -> Restore | None:
        return find_unfinished(self.restores)

    def __bool__(self) -> bool:
        return self.restore is not None or bool(self.unnotified)


def find_outstanding(tx: StoreTransaction, up_to: int | None = None) -> Outstanding:
    """Return the unfinished work, up to the checkpoint `up_to` if given."""
    return Outstanding(tx.restores(), choose_unnotified(tx.unnotified(), up_to))


class CleansAlong(Protocol):
    """Cleaning within the steps of a notification: `look` runs in its first transaction, `delete` outside of
    transactions, `record` in its last transaction, and `end` after it. Each call but `end` may be omitted. `end`
    then does its work."""

    def check(self, tx: StoreTransaction) -> None: ...

    def delete(self) -> None: ...

    def record(self, tx: StoreTransaction) -> None: ...

    def refused(self) -> bool:
        """Whether a record may have been refused. It is then not written together with the notification again."""

    def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Begun:
    """A delivery that began in the transaction that completed its checkpoint, or in the one that first read it."""

    outstanding: Outstanding
    subtasks: Subtasks
    cleaning: CleansAlong
