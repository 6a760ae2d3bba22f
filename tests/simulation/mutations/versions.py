"""Planted mistakes in versions of a file that replace one another."""

from dataclasses import replace

from mutations.planting import mutation
from tidegate.protocol.facts.records import HandleKind
from tidegate.sources import snapshot_files
from tidegate.sources.snapshot_files import Versions


@mutation("a version is compared with none", (Versions, "replay"))
def _(original):
    return lambda self, split, restored, taken, storage: original(self, split, None, taken, storage)


@mutation("a version that was read is read again", (snapshot_files, "_fresh"))
def _(original):
    return lambda restored, taken: taken.handles


@mutation("a copy goes when its checkpoint has completed", (snapshot_files, "_copied"))
def _(original):
    def copied(file, content, last, context, number):
        return replace(original(file, content, last, context, number), kind=HandleKind.EXCHANGE)

    return copied


@mutation("every copy has the same name", (snapshot_files, "_copied"))
def _(original):
    def copied(file, content, last, context, number):
        return original(
            file, content, last, replace(context, prefix=context.prefix.partition("/")[0] + "/copy"), number
        )

    return copied


@mutation("no version follows the first", (Versions, "_newer"))
def _(original):
    return lambda self, position, context: [] if position else original(self, position, context)
