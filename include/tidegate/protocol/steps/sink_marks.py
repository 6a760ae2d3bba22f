"""What a sink of upserts has of its operator's state: a mark in the position of each of its subtasks.

A mark says that the sink has the rows of its subtask as the same checkpoint has them, rows that had expired left out.
It counts only where the table is known to have that checkpoint: a restore may have left the table as it was, or the
table is another one, such as in a database that the checkpoint was not taken in. Otherwise the sink is given the whole
state once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tidegate.protocol.facts.records import Snapshot, StateHandle, SubtaskId

#: In the position of a sink's subtask.
MARK = "upserted"
#: Details of staged files: that the rows are keys which are gone; that the sink's files of the checkpoint are all rows.
DELETES, WHOLE = "deletes", "whole"


@dataclass(frozen=True, slots=True)
class SinkMark:
    """`sink` identifies the sink and its place. `layout` is the fingerprint of the columns that its rows have; None if
    it was given none. Rows up to the `horizon` had expired."""

    sink: str
    operator_id: str
    parallelism: int
    layout: str | None = None
    horizon: int | None = None

    @classmethod
    def of(cls, snapshot: Snapshot | None) -> "SinkMark | None":
        """What an acknowledgement of the sink has recorded."""
        recorded = ((snapshot.position if snapshot else None) or {}).get(MARK)
        return None if recorded is None else cls(**recorded)

    def position(self) -> dict[str, Any]:
        """As a snapshot has it."""
        return {MARK: asdict(self)}

    def is_of(self, sink: str, operator_id: str, parallelism: int) -> bool:
        return (self.sink, self.operator_id, self.parallelism) == (sink, operator_id, parallelism)


def is_whole(staged: Sequence[StateHandle]) -> bool:
    """Whether staged rows are all that the state has. Performs no I/O."""
    return any(WHOLE in handle.details for handle in staged)


def gone_first(staged: Sequence[StateHandle]) -> list[StateHandle]:
    """Files of keys that are gone in front of the others: they have a column more. Performs no I/O."""
    return sorted(staged, key=lambda handle: DELETES not in handle.details)


def is_mark_alone(position: Mapping[str, Any]) -> bool:
    """Whether nothing is lost with a sink that the definition does not have any more. Performs no I/O."""
    return position.keys() == {MARK}


def known_marks(
    snapshots: Mapping[SubtaskId, Snapshot], latest_id: int, shown: Mapping[str, int | None], is_restored: bool
) -> dict[SubtaskId, Snapshot]:
    """The snapshots of the latest checkpoint, without the marks of tables that may not have it. `shown`: by operator
    id, what the tables have of sinks that can tell. The others are believed, unless a restore has led here: the sink
    may have been no part of the pipeline then. Performs no I/O."""

    def is_known(operator_id: str) -> bool:
        return shown[operator_id] == latest_id if operator_id in shown else not is_restored

    return {id_: each if is_known(id_.operator_id) else without_mark(each) for id_, each in snapshots.items()}


def without_mark(snapshot: Snapshot) -> Snapshot:
    """The snapshot of a sink that may lack rows. Performs no I/O."""
    if not snapshot.position or MARK not in snapshot.position:
        return snapshot
    rest = {name: value for name, value in snapshot.position.items() if name != MARK}
    return replace(snapshot, position=rest or None)
