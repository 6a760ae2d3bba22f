"""Planted mistakes around stopped committers: what fences them, and what they may still do."""

from datetime import timedelta
from types import SimpleNamespace

from memory_transaction import MemoryTransaction

from mutations.planting import mutation
from tidegate.protocol.steps import committing as rules
from tidegate.sinks import fencing, publish, versions


@mutation("what older attempts have prepared stays where it is", (fencing, "_fence_older"))
def _(original):
    return lambda private, number: None


@mutation("whoever was overtaken records that the sinks were notified", (MemoryTransaction, "mark_notified"))
def _(original):
    return lambda self, checkpoint_id, attempt, at, ends=False: (
        original(self, checkpoint_id, self.state.committer.attempt, at, ends) or True
    )


@mutation("an attempt at committing is given out a second time", (rules, "begun"))
def _(original):
    return lambda committer, at: rules.CommitterRecord(max(committer.attempt, 1), at)


@mutation("the link to the newest version is prepared in a place that attempts share", (publish, "point_to"))
def _(original):
    def point(root, private, version):
        shared = SimpleNamespace(join=lambda name: publish.os.path.join(root, "_next"))
        if "_next" in publish.os.listdir(root):
            publish.os.unlink(shared.join("_next"))
        original(root, shared, version)

    return point


@mutation("every version but its own two is removed", (publish, "remove_outdated"))
def _(original):
    def remove(root, private, shown, readable_for):
        directory = publish.os.path.join(root, "_versions")
        for name in publish.os.listdir(directory):
            if name not in (f"chk-{shown.checkpoint_id}", f"chk-{shown.before}"):
                fencing.shutil.rmtree(publish.os.path.join(directory, name))

    return remove


@mutation("a version that was replaced lately is removed as if it were old", (versions, "choose_outdated"))
def _(original):
    return lambda replaced_at, last, now, readable_for: original(replaced_at, last, now, timedelta(0))


@mutation("a version is as old as its files, not as when it was replaced", (publish, "note_replaced"))
def _(original):
    return lambda root, checkpoint_id: None


@mutation("staged files are moved away before they are visible", (publish, "link"))
def _(original):
    return lambda source, target, keep: publish.os.rename(source, target)
