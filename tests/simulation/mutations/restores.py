"""Planted mistakes in how a pipeline goes back to an earlier checkpoint, and forth again."""

import sys
from dataclasses import replace
from datetime import timedelta

from memory_transaction import MemoryTransaction

from mutations.planting import mutation
from tidegate.coordination.cleaning import sweeper as sweepers
from tidegate.coordination.recovery import restore as restoring
from tidegate.coordination.recovery import restore_plan as planning
from tidegate.coordination.recovery.restore import Restoring
from tidegate.coordination.steps import finalize as commits
from tidegate.coordination.steps import notify as deliveries
from tidegate.coordination.steps import rewinding_sinks as rewinding
from tidegate.coordination.steps import trigger as desks
from tidegate.protocol.facts import branches
from tidegate.sinks import publish, rewind

# -- which checkpoints count


@mutation("what a restore leaves behind still counts", (MemoryTransaction, "begin_restore"))
def _(original):
    everything = branches.Branch(((1, None),))
    return lambda self, restore, present, *rest: original(self, restore, everything, *rest)


@mutation(
    "a branch forgets all restores but the newest",
    (planning, "branch_of"),
    (rewinding, "branch_of"),
    (branches, "branch_of"),
)
def _(original):
    return lambda checkpoint_id, restores: original(checkpoint_id, restores[-1:])


@mutation("what was left behind before is left behind for ever", (MemoryTransaction, "begin_restore"))
def _(original):
    def begin(self, restore, present, message, forgiven_until):
        before = {id_: record for id_, record in self.state.checkpoints.items() if record.abandoned_by is not None}
        original(self, restore, present, message, forgiven_until)
        self.state.checkpoints |= before

    return begin


@mutation("an undo goes to where the restore had gone", (restoring, "choose_undone"))
def _(original):
    def choose(pipeline_id, restores):
        found = original(pipeline_id, restores)
        return replace(found, previous_checkpoint_id=found.checkpoint_id)

    return choose


@mutation("the oldest restore is undone first", (restoring, "choose_undone"))
def _(original):
    return lambda pipeline_id, restores: original(pipeline_id, restores[::-1])


@mutation("a restore can be undone twice", (restoring, "choose_undone"))
def _(original):
    return lambda pipeline_id, restores: original(pipeline_id, [replace(one, undoes=None) for one in restores])


@mutation("a request whose checkpoint was left behind has completed", (desks, "decide_repeated"))
def _(original):
    return lambda previous: original(previous and previous.moved(abandoned_by=None))


# -- what ran before


@mutation("what is in progress goes on when its pipeline is restored", (restoring, "abort_all"))
def _(original):
    return lambda tx, reason, now, why=None, last=None: None


@mutation("a checkpoint that was left behind is delivered", (deliveries, "require_present"))
def _(original):
    return lambda record: None


class Unaware:
    """A transaction that does not say what was left behind."""

    def __init__(self, tx):
        self._tx = tx

    def __getattr__(self, name):
        return getattr(self._tx, name)

    def checkpoint(self, checkpoint_id):
        return self._tx.checkpoint(checkpoint_id).moved(abandoned_by=None)


@mutation("a committer does not look whether its checkpoint was left behind meanwhile", (deliveries, "SinkWork"))
def _(original):
    return lambda what, is_done: original(what, lambda tx: is_done(Unaware(tx)))


@mutation("a plan is carried out although another checkpoint has completed since", (Restoring, "_require_as_planned"))
def _(original):
    return lambda self, plan, facts, present: None


# -- what readers see


@mutation("the next trigger does not finish a restore", (desks, "find_outstanding"))
def _(original):
    return lambda tx, up_to=None: replace(original(tx, up_to), restores=())


@mutation("whoever was overtaken records that the sinks were rewound", (MemoryTransaction, "mark_rewound"))
def _(original):
    return lambda self, number, attempt, at: original(self, number, self.state.committer.attempt, at) or True


@mutation("a rewind withdraws nothing", (rewind, "shown"))
def _(original):
    return lambda root: []


@mutation("a rewind brings nothing back", (rewind, "append"))
def _(original):
    def append(root, checkpoint_id, branch, *rest):
        original(root, checkpoint_id, Without(branch, rewind.withdrawn(root)), *rest)

    return append


class Without:
    """A branch that lacks some of its checkpoints."""

    def __init__(self, branch, ids):
        self._branch = branch
        self._ids = ids

    def __contains__(self, checkpoint_id):
        return checkpoint_id in self._branch and checkpoint_id not in self._ids


@mutation("a table of current rows does not go back", (rewind, "replace"))
def _(original):
    return lambda *about: publish.replace(*about, timedelta(0))


@mutation("a table that was empty then goes on showing its rows", (rewind, "replace"))
def _(original):
    return lambda root, checkpoint_id, staged, attempt: staged and original(root, checkpoint_id, staged, attempt)


@mutation("rows are withdrawn by renaming what readers see", (rewind, "_move"))
def _(original):
    def move(private, source, target, attempt):
        rewind.os.rename(source, target)

    return move


# -- what is kept


@mutation("withdrawn rows are deleted although a savepoint rests on them", (rewinding, "choose_withdrawn_for_good"))
def _(original):
    return lambda withdrawn, completed, restores: original(withdrawn, [], restores)


@mutation("withdrawn rows stay for ever", (rewinding, "choose_withdrawn_for_good"))
def _(original):
    return lambda withdrawn, completed, restores: []


@mutation("merged runs that do not fit the restored checkpoint stay", (restoring, "choose_obsolete"))
def _(original):
    return lambda snapshots, compactions: []


@mutation("what was left behind counts among the retained", (commits, "choose_subsumed"))
def _(original):
    """The caller's transaction knows what was left behind."""
    return lambda retained, *rule: original([*sys._getframe(1).f_locals["tx"].abandoned(), *retained], *rule)


@mutation("what was left behind goes although it can be undone", (sweepers, "choose_overdue_abandoned"))
def _(original):
    return lambda abandoned, restores, keep, now: original(abandoned, restores, timedelta(0), now)


@mutation("what was left behind is kept for ever", (sweepers, "choose_overdue_abandoned"))
def _(original):
    return lambda abandoned, restores, keep, now: []


@mutation("savepoints that were left behind go with the rest", (sweepers, "choose_overdue_abandoned"))
def _(original):
    def choose(abandoned, restores, keep, now):
        ends = {restore.number: restore.restored_at + keep for restore in restores}
        return [record.checkpoint_id for record in abandoned if ends[record.abandoned_by] < now]

    return choose
