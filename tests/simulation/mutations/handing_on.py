"""Planted mistakes in what a step hands on to the next one in the same process."""

from mutations.planting import mutation
from tidegate.coordination import handed_on
from tidegate.coordination.notify import Delivery


@mutation("what is remembered of one checkpoint is taken for another one's", (handed_on, "_known"))
def _(original):
    def known(remembered, id_, read, lasting):
        return next(iter(remembered.values())) if remembered else original(remembered, id_, read, lasting)

    return known


@mutation("a notification that begins with the commit point goes on although that failed", (Delivery, "begin"))
def _(original):
    def begin(self, tx, record):
        begun = original(self, tx, record)
        self.has_begun(record, begun)
        return begun

    return begin
