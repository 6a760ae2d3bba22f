"""Planted mistakes in which checkpoints are rolled up. What the store itself refuses is planted there too."""

import memory_facts
import memory_transaction

from mutations.planting import mutation
from tidegate.protocol.cleaning import rollup as history
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import CheckpointKind

PLACES = (history, "may_be_rolled_up"), (memory_transaction, "may_be_rolled_up"), (memory_facts, "is_gone")


@mutation("a savepoint is rolled up", *PLACES)
def _(original):
    return lambda record: original(record.moved(kind=CheckpointKind.CHECKPOINT))


@mutation("what the pipeline goes on from is rolled up", *PLACES)
def _(original):
    return lambda record: original(record) or record.status is Status.COMPLETED


@mutation("what is to be deleted is rolled up first", *PLACES)
def _(original):
    return lambda record: original(record) or record.status is Status.SUBSUMED


@mutation("what a restore has left behind is rolled up, although it can be undone", *PLACES)
def _(original):
    return lambda record: original(record) or record.abandoned_by is not None


@mutation("what has failed is rolled up while it still counts as in progress", *PLACES)
def _(original):
    return lambda record: original(record) or record.phase.value == "ACKNOWLEDGED"
