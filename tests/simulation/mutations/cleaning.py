"""Planted mistakes in what `tidegate clean` finds, takes and reports."""

from mutations.planting import mutation
from tidegate.coordination.cleaning import clean as cleanings
from tidegate.coordination.cleaning import referenced_files as kept_files
from tidegate.coordination.cleaning import sweeper as sweepers
from tidegate.coordination.cleaning.clean import Cleaning
from tidegate.coordination.cleaning.sweeper import Sweeper
from tidegate.protocol.cleaning import leftovers
from tidegate.protocol.cleaning.clean_report import Weights
from tidegate.protocol.cleaning.leftovers import Leftovers


@mutation("what a checkpoint in progress has written counts as left", (leftovers, "_has_ended"))
def _(original):
    return lambda checkpoint_id, record, latest, now: record is not None or original(checkpoint_id, record, latest, now)


@mutation("nobody looks where an attempt may have left something long ago", (Sweeper, "find_leftovers"))
def _(original):
    return lambda self: Leftovers([], [])


@mutation("what a lost database knew counts as left", (leftovers, "find_foreign"), (sweepers, "find_foreign"))
def _(original):
    return lambda listed, known: []


@mutation("a file that is referred to and was left is deleted", (Sweeper, "find_leftovers"))
def _(original):
    def find(self):
        found = original(self)
        kept = [path for path in self._context.storage.list(self._context.pipeline_id) if path.endswith(".run")]
        return Leftovers([*found.files, *(sweepers.Deletion(sweepers.STORAGE, path) for path in kept)], found.foreign)

    return find


@mutation("what has gone rightly since is called damage", (Cleaning, "_still_there"))
def _(original):
    return lambda self, damage: list(damage)


@mutation("a plan of a cleaning deletes what it has found", (Cleaning, "plan"))
def _(original):
    def plan(self):
        report = original(self)
        self._sweeper.deletions.delete(list(report.garbage), set())
        return report

    return plan


@mutation("a report does not name what can be undone", (cleanings, "find_undo_reasons"))
def _(original):
    return lambda abandoned, *rest: {record.checkpoint_id: () for record in abandoned}


@mutation("a shared file counts for each checkpoint that refers to it", (cleanings, "weigh"))
def _(original):
    def weigh(kept, expired, merged, in_use):
        found = original(kept, expired, merged, in_use)
        costs = [full for full, _ in found.each.values()]
        total = type(found.total)(sum(each.files for each in costs), sum(each.bytes for each in costs))
        return Weights(found.each, total, found.freed)

    return weigh


@mutation("tables of current rows cost nothing", (kept_files, "committables"))
def _(original):
    return lambda subtasks, operator_id: ()
