"""Planted mistakes around topics whose splits are changed, or whose records are lost before they are read."""

from dataclasses import replace

from mutations.planting import mutation
from tidegate.coordination.recovery import skipping as carried_out
from tidegate.coordination.steps import lookup
from tidegate.kafka import polls, skipping
from tidegate.kafka.positions import Position
from tidegate.kafka.source import KafkaSource
from tidegate.protocol.steps import restored_snapshots


@mutation("with another number of splits a topic is begun anew", (KafkaSource, "divide"))
def _(original):
    return lambda self, split, positions: Position().stored()


@mutation("positions of splits that are gone are forgotten", (restored_snapshots, "_rescaled"))
def _(original):
    def rescaled(before, plan, snapshots):
        found = original(before, plan, snapshots)
        return {subtask: each for subtask, each in found.items() if subtask.subtask_index < plan.parallelism}

    return rescaled


@mutation("records that were deleted before they were read are passed over", (polls, "begin"))
def _(original):
    def begin(topic, position, found, starts):
        if position is not None:
            firsts = {each: bounds.first for each, bounds in found.partitions.items()}
            position = replace(position, offsets={p: max(at, firsts[p]) for p, at in position.offsets.items()})
        return original(topic, position, found, starts)

    return begin


@mutation("a skip goes to the end of a topic", (skipping, "skip_lost"))
def _(original):
    def skip_lost(position, found):
        lost, behind = original(position, found)
        return lost, replace(behind, offsets={each: found.partitions[each].end for each in behind.offsets})

    return skip_lost


@mutation("a skip counts for whatever checkpoint follows", (lookup, "apply_skips"))
def _(original):
    return lambda snapshots, checkpoint_id, skips: original(
        snapshots, checkpoint_id, [replace(each, checkpoint_id=checkpoint_id) for each in skips]
    )


@mutation("a skip is recorded, and nothing goes on behind it", (lookup, "apply_skips"))
def _(original):
    return lambda snapshots, checkpoint_id, skips: dict(snapshots)


@mutation(
    "a skip is carried out as planned although a checkpoint has completed since", (carried_out, "require_as_planned")
)
def _(original):
    return lambda plan, latest, snapshots: None
