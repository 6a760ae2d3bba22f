"""The snapshots of a table that stay: those of the checkpoints that a restore can go back to, and the user's."""

from collections.abc import Collection

from pyiceberg.table.snapshots import Snapshot

from tidegate.iceberg.draft import Draft
from tidegate.iceberg.names import BEFORE, TAG, WITHDRAWN, tagged
from tidegate.ports import Branch

#: Properties in the summary of a snapshot: its checkpoint and pipeline.
CHECKPOINT, PIPELINE = "tidegate.checkpoint-id", "tidegate.pipeline"
#: A property of the table: its first checkpoint.
FIRST = "tidegate.first-checkpoint-id"


def note(draft: Draft, checkpoint_id: int) -> None:
    """Give the snapshot of a checkpoint its tag. A checkpoint without rows has the snapshot of the one before it."""
    assert draft.head is not None
    draft.refer(f"{TAG}{checkpoint_id}", draft.head.snapshot_id)


def expire(draft: Draft, kept: Collection[int] | None) -> None:
    """Remove the snapshots of checkpoints that are not kept. `kept` was read after a checkpoint had completed, so later
    checkpoints stay; None if it is not known yet.

    A snapshot of another writer stays as long as the oldest kept one, or as long as it has a tag or branch.
    """
    if not kept:
        return
    newest, refs = max(kept), draft.metadata.refs
    for prefix in (TAG, WITHDRAWN):
        for id_, tag in tagged(refs, prefix).items():
            if id_ <= newest and id_ not in kept:
                draft.release(tag)
    first = draft.metadata.properties.get(FIRST, "")
    if BEFORE in refs and first.isdecimal() and min(kept) > int(first):
        draft.release(BEFORE)
    draft.expire(unreferenced(draft))


def unreferenced(draft: Draft) -> list[int]:
    metadata = draft.metadata
    heads = {ref.snapshot_id for ref in metadata.refs.values()}
    tags = [*tagged(metadata.refs, TAG).values(), *tagged(metadata.refs, WITHDRAWN).values()]
    numbers = [metadata.snapshot_by_id(metadata.refs[tag].snapshot_id) for tag in tags]
    oldest = min((each.sequence_number or 0 for each in numbers if each is not None), default=0)
    return [
        each.snapshot_id
        for each in metadata.snapshots
        if each.snapshot_id not in heads and (is_own(each) or (each.sequence_number or 0) < oldest)
    ]


def is_own(snapshot: Snapshot) -> bool:
    """Whether the snapshot is that of a checkpoint."""
    return snapshot.summary is not None and snapshot.summary[CHECKPOINT] is not None


def withdraw(draft: Draft, branch: Branch) -> None:
    """Tag the snapshots of checkpoints outside the branch as withdrawn, and restore the tags of those in it."""
    for before, after, stays in ((TAG, WITHDRAWN, True), (WITHDRAWN, TAG, False)):
        for id_, tag in tagged(draft.metadata.refs, before).items():
            if (id_ in branch) is not stays:
                snapshot_id = draft.metadata.refs[tag].snapshot_id
                draft.release(tag)
                draft.refer(f"{after}{id_}", snapshot_id)
