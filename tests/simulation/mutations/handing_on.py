"""Planted mistakes in what a step hands on to the next one in the same process."""

from contextlib import nullcontext

from mutations.planting import mutation
from tidegate.coordination.steps import handed_on


@mutation("what is remembered of one checkpoint is taken for another one's", (handed_on, "_known"))
def _(original):
    def known(remembered, id_, read, lasting):
        return next(iter(remembered.values())) if remembered else original(remembered, id_, read, lasting)

    return known


@mutation("what a lost transaction wrote is handed on", (handed_on.HandedOn, "unless_lost"))
def _(original):
    return lambda self, checkpoint_id: nullcontext()
