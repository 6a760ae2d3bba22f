"""Planted mistakes around the merged files of an appended table."""

from mutations.planting import mutation
from tidegate.sinks import merged


@mutation("merged rows are used whatever checkpoints are visible within their range", (merged, "find_usable"))
def _(original):
    def find(ids, names):
        matches = [match for name in names if (match := merged._SEVERAL.fullmatch(name))]
        return sorted((int(match[1]), int(match[2]), match[0]) for match in matches)

    return find


@mutation("after a rewind the merged files are those of before", (merged.MergedView, "rewind"))
def _(original):
    return lambda self, private, checkpoint_id, ids, attempt: None


@mutation("a version of merged files is made of the one before and the new partition", (merged.publish, "partitions"))
def _(original):
    def partitions(directory):
        ids = original(directory)
        return ids[-3:] if len(ids) > 5 and not directory.endswith("_withdrawn") else ids

    return partitions
