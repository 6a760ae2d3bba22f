"""Planted mistakes in how savepoints are exported, disposed of, and restored from their directories."""

from dataclasses import replace

from memory_transaction import MemoryTransaction

from mutations.planting import mutation
from tidegate.coordination.cleaning import sweeper as sweepers
from tidegate.coordination.recovery import export as exports
from tidegate.coordination.recovery import importing as imports
from tidegate.coordination.recovery import savepoints as owners
from tidegate.coordination.recovery.importing import Importing
from tidegate.protocol.facts.branches import Restore
from tidegate.protocol.recovery.canonical import MARKER, complete, complete_document
from tidegate.protocol.recovery.imports import ClaimMode
from tidegate.protocol.recovery.lost_database import Numbers

# -- written


@mutation("an export keeps the newest run of each subtask", (exports, "plan_export"))
def _(original):
    def plan(operators, snapshots, restaged):
        rewrites, copies = original(operators, snapshots, restaged)
        return [replace(rewrite, runs=rewrite.runs[-1:]) for rewrite in rewrites], copies

    return plan


@mutation("an export says that it is complete before it is", (exports, "write_documents"))
def _(original):
    def write(graph, config, target, metadata):
        document = complete_document(complete(metadata, b""))
        target.write(MARKER, str(document).encode())
        return original(graph, config, target, metadata)

    return write


@mutation("an export leaves out what tables of current rows show", (exports, "plan_export"), (exports, "exported"))
def _(original):
    return lambda operators, snapshots, restaged, *rest: original(operators, snapshots, (), *rest)


@mutation("the marker of a savepoint goes last", (owners, "files_in_order"), (imports, "files_in_order"))
def _(original):
    return lambda location, paths: original(location, paths)[::-1]


# -- read back


@mutation("a directory that nobody has claimed is emptied", (Importing, "_commit"))
def _(original):
    return lambda self, plan, metadata, claim, *rest: original(self, plan, metadata, ClaimMode.CLAIM, *rest)


@mutation("a claimed directory is emptied before the restore is recorded", (Importing, "_prepare"))
def _(original):
    def prepare(self, plan, checkpoint_id, accepted):
        with self._context.transaction() as tx:
            tx.enqueue_deletions(imports.files_in_order(plan.url, [file.path for file in plan.savepoint.files]))
        return original(self, plan, checkpoint_id, accepted)

    return prepare


@mutation("the directory of a savepoint of this database can be claimed", (Importing, "_require_claimable"))
def _(original):
    return lambda self, url: None


@mutation("a restore from a directory does not see what has completed since", (Importing, "_require_as_planned"))
def _(original):
    return lambda self, plan, facts: None


@mutation("a copy of a savepoint brings back a branch whose rows are deleted", (imports, "require_rows_kept"))
def _(original):
    return lambda *arguments: None


@mutation("a restore from a directory reads everything again", (imports, "imported"))
def _(original):
    def imported(*arguments):
        found = original(*arguments)
        snapshots = {id_: replace(each, position={}) for id_, each in found.snapshots.items()}
        return replace(found, snapshots=snapshots)

    return imported


@mutation("what a restore copies counts as dead at once", (sweepers, "choose_stale"))
def _(original):
    return lambda copying, now: list(copying)


@mutation("a restore is recorded although its lease has ended", (MemoryTransaction, "end_import"))
def _(original):
    return lambda self, checkpoint_id, at: original(self, checkpoint_id, at) or True


@mutation("what a restore has copied in vain stays where it is", (MemoryTransaction, "unswept"))
def _(original):
    return lambda self: {id_: at for id_, at in original(self).items() if id_ in self.state.checkpoints}


@mutation("tables go back to the savepoint and not to what was copied", (Restore, "goes_on_from"))
def _(original):
    return property(lambda self: self.checkpoint_id)


# -- into an empty database


@mutation("numbers of a lost database are given out again", (Importing, "_numbers"))
def _(original):
    def numbers(self, savepoint):
        return replace(original(self, savepoint), checkpoint_id=savepoint.checkpoint_id)

    return numbers


@mutation("attempts at committing begin anew in an empty database", (Importing, "_numbers"), (imports, "WITHOUT_TRACE"))
def _(original):
    if not callable(original):
        return 0
    return lambda self, savepoint: Numbers(original(self, savepoint).checkpoint_id)
