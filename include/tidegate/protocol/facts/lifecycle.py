"""The life of a checkpoint: one table of all legal transitions.

Users see the `status`: Flink's three values, and the two that a completed checkpoint may reach later. The `phase` is
its progress (protocol.md section 1). The store repeats the table as CHECK constraints and makes each transition a
conditional update, so that a lost race updates no rows.
"""

from enum import StrEnum


class Status(StrEnum):
    IN_PROGRESS = "IN_PROGRESS"  # recorded; neither its data nor its state counts yet
    COMPLETED = "COMPLETED"  # past the commit point; a restore may start from it
    FAILED = "FAILED"  # aborted; the previous checkpoint is still the latest
    SUBSUMED = "SUBSUMED"  # completed, and pushed out of the retained ones by a newer one
    DISCARDED = "DISCARDED"  # subsumed, and its files are gone


class Phase(StrEnum):
    TRIGGERED = "TRIGGERED"  # expected subtasks and deadline are recorded
    ACKNOWLEDGED = "ACKNOWLEDGED"  # every expected subtask has reported its snapshot
    HELD = "HELD"  # a verdict failed, and the checkpoint waits for manual approval
    VALIDATED = "VALIDATED"  # every verdict is in and good, or was approved manually


Stage = tuple[Status, Phase]

TRANSITIONS: dict[Stage, frozenset[Stage]] = {
    (Status.IN_PROGRESS, Phase.TRIGGERED): frozenset(
        {(Status.IN_PROGRESS, Phase.ACKNOWLEDGED), (Status.FAILED, Phase.TRIGGERED)}
    ),
    (Status.IN_PROGRESS, Phase.ACKNOWLEDGED): frozenset(
        {
            (Status.IN_PROGRESS, Phase.HELD),
            (Status.IN_PROGRESS, Phase.VALIDATED),
            (Status.FAILED, Phase.ACKNOWLEDGED),
        }
    ),
    (Status.IN_PROGRESS, Phase.HELD): frozenset({(Status.IN_PROGRESS, Phase.VALIDATED), (Status.FAILED, Phase.HELD)}),
    (Status.IN_PROGRESS, Phase.VALIDATED): frozenset(
        {(Status.COMPLETED, Phase.VALIDATED), (Status.FAILED, Phase.VALIDATED)}
    ),
    (Status.COMPLETED, Phase.VALIDATED): frozenset({(Status.SUBSUMED, Phase.VALIDATED)}),
    (Status.SUBSUMED, Phase.VALIDATED): frozenset({(Status.DISCARDED, Phase.VALIDATED)}),
    (Status.DISCARDED, Phase.VALIDATED): frozenset(),
    (Status.FAILED, Phase.TRIGGERED): frozenset(),
    (Status.FAILED, Phase.ACKNOWLEDGED): frozenset(),
    (Status.FAILED, Phase.HELD): frozenset(),
    (Status.FAILED, Phase.VALIDATED): frozenset(),
}

#: Past the commit point: the checkpoint's effects hold, whether or not its state is still kept. Only a restore takes
#: them back.
COMMITTED = frozenset({Status.COMPLETED, Status.SUBSUMED, Status.DISCARDED})


def is_legal(before: Stage, after: Stage) -> bool:
    """Whether a checkpoint may go from one stage straight to the other."""
    return after in TRANSITIONS.get(before, frozenset())
