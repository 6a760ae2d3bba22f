"""Planted mistakes in what a checkpoint is said to weigh."""

from mutations.planting import mutation
from tidegate.coordination.steps import finalize


@mutation("a run that subtasks share counts once for each of them in the full size", (finalize, "sizes"))
def _(original):
    def sizes(checkpoint_id, snapshots):
        full = sum(snapshot.state_size() for snapshot in snapshots.values())
        return full, original(checkpoint_id, snapshots)[1]

    return sizes
