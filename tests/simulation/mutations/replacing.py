"""Planted mistakes in how a corrected file is taken on purpose."""

from mutations.planting import mutation
from tidegate.coordination.recovery.corrected_files import Replacing


@mutation("a corrected file is taken from the last but one checkpoint on, which has read it", (Replacing, "_plan_from"))
def _(original):
    def plan_from(self, kept, vertex, connector, names):
        looked_at = iter(kept[:1])
        read = self._read
        self._read = lambda *facts: read(*facts) if next(looked_at, None) else {}
        try:
            return original(self, kept, vertex, connector, names)
        finally:
            del self._read

    return plan_from


@mutation("a corrected file takes the pipeline back to the oldest checkpoint", (Replacing, "_plan_from"))
def _(original):
    return lambda self, kept, *rest: original(self, [*kept[:1], *reversed(kept[1:])], *rest)


@mutation("what one of two corrected files has given stays", (Replacing, "_read"))
def _(original):
    def read(self, vertex, connector, names, record):
        found = original(self, vertex, connector, names, record)
        return found if len(found) == len(names) else {}

    return read


@mutation("a corrected file is looked for in one split alone", (Replacing, "_read"))
def _(original):
    class OneSplit:
        def __init__(self, connector):
            self._connector = connector

        def find_read(self, names, taken, storage):
            return self._connector.find_read(names, taken[:1], storage)

    return lambda self, vertex, connector, *rest: original(self, vertex, OneSplit(connector), *rest)


@mutation("the file that is to be read anew counts as missing", (Replacing, "_plan"))
def _(original):
    def plan(self, vertex, names, record):
        return original(self, vertex, [], record)

    return plan


@mutation("a way back is taken that was left behind while it was looked for", (Replacing, "plan"))
def _(original):
    def plan(self, source, files):
        vertex, connector = self._source(source)
        return self._plan_from(self._kept(), vertex, connector, [connector.name_of(file) for file in files])

    return plan
