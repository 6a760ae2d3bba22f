"""Planted mistakes in forks: what they take along, what they leave alone, and when they happen."""

from dataclasses import replace

from memory_transaction import MemoryTransaction
from simulator.graphs import PIPELINE_ID

from mutations.planting import mutation
from tidegate.coordination.cleaning import sweeper as sweepers
from tidegate.coordination.observing.history import History
from tidegate.coordination.recovery import fork as forking
from tidegate.coordination.recovery.fork import Forking
from tidegate.coordination.recovery.import_lease import ImportLease
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.coordination.recovery.savepoint_directory import CopiedFiles
from tidegate.coordination.steps.identity import Identification
from tidegate.coordination.steps.outstanding import Outstanding
from tidegate.protocol.facts.names import Fork
from tidegate.protocol.facts.records import HandleKind
from tidegate.protocol.recovery import fork as rules
from tidegate.protocol.recovery.imports import Imported


def _nothing(original):
    return lambda *arguments, **named: None


def _changed(change):
    """What a fork gets, each snapshot as `change` makes it of its own and the original's."""

    def make(original):
        def forked(snapshots, *more):
            found = original(snapshots, *more)
            changed = {id_: change(id_, each, snapshots[id_]) for id_, each in found.snapshots.items()}
            return Imported(changed, found.copies)

        return forked

    return make


# -- what it takes along


@mutation("a fork refers to the original's files", (forking, "forked"))
def _(original):
    return lambda snapshots, *more: Imported(snapshots, [])


@mutation("a fork reads everything again", (forking, "forked"))
def _(original):
    return _changed(lambda id_, mine, theirs: replace(mine, position=None))(original)


@mutation("a fork takes along what is staged for the original's tables", (forking, "forked"))
def _(original):
    def staged(id_, mine, theirs):
        return replace(mine, handles=mine.handles + tuple(h for h in theirs.handles if h.kind is HandleKind.STAGED))

    return _changed(staged)(original)


@mutation("a fork takes along the newest run of each subtask", (forking, "forked"))
def _(original):
    def newest(id_, mine, theirs):
        kept = [handle for handle in mine.handles if handle.kind is not HandleKind.RUN]
        return replace(mine, handles=(*kept, *[h for h in mine.handles if h.kind is HandleKind.RUN][-1:]))

    return _changed(newest)(original)


@mutation("a fork takes along rows that were on their way", (rules, "_TAKEN"))
def _(original):
    return (*original, HandleKind.EXCHANGE)


@mutation("in a fork sources begin anew that had finished", (forking, "forked"))
def _(original):
    return _changed(lambda id_, mine, theirs: replace(mine, finished=False))(original)


@mutation("sinks have finished with the tables of a fork", (forking, "forked"))
def _(original):
    return _changed(lambda id_, mine, theirs: replace(mine, finished=theirs.finished))(original)


@mutation("a fork begins with the latest checkpoint, whatever was named", (Forking, "_native"))
def _(original):
    return lambda self, graph, where: original(self, graph, ToCheckpoint(None))


@mutation("a fork leaves out a file", (CopiedFiles, "copy"))
def _(original):
    return lambda self, copies, *more: original(self, copies[:-1], *more)


# -- what it leaves alone


@mutation("a fork moves the original's files", (CopiedFiles, "copy"))
def _(original):
    def copy(self, copies, *more):
        original(self, copies, *more)
        self.storage.delete([each.handle.path for each in copies])

    return copy


@mutation("a fork counts as a restore of the original", (Forking, "_native"))
def _(original):
    def native(self, graph, where):
        found = original(self, graph, where)
        with self._context.store.transaction(graph.pipeline.name) as tx:
            tx.record_restore(found.record.checkpoint_id, self._context.clock.now())
        return found

    return native


@mutation("a fork sweeps where the original's checkpoint of that number is", (sweepers, "directory"))
def _(original):
    def directory(pipeline_id, checkpoint_id):
        mistaken = pipeline_id.startswith(PIPELINE_ID)
        return original(PIPELINE_ID if mistaken else pipeline_id, checkpoint_id)

    return directory


@mutation("a fork may write to the original's tables", (forking, "require_own_tables"))
def _(original):
    return _nothing(original)


# -- when it happens


@mutation("a pipeline is forked twice, or though it has begun", (Forking, "_require_to_begin"))
def _(original):
    return _nothing(original)


@mutation("nobody looks again before a fork is recorded", (Forking, "_commit"))
def _(original):
    def commit(self, *arguments):
        self._require_to_begin = lambda *more: None
        original(self, *arguments)

    return commit


@mutation("a fork is recorded although what it has copied was given up", (ImportLease, "end"))
def _(original):
    return lambda self, tx, now: tx.end_import(self.checkpoint_id, now)


@mutation("the lease of a fork goes on when it is recorded", (MemoryTransaction, "end_import"))
def _(original):
    return lambda self, checkpoint_id, at: True


@mutation("a fork counts as done when its commit is unknown", (ImportLease, "_has_landed"))
def _(original):
    return lambda self: True


@mutation("the ids of a fork begin anew", (ImportLease, "begin"))
def _(original):
    return lambda self, tx, after: original(self, tx, 0)


@mutation("what runs of the new pipeline goes on beside a fork", (ImportLease, "end"))
def _(original):
    def end(self, tx, now):
        original(self, tx, now)
        tx.end_region = lambda attempt, at: False

    return end


# -- what is recorded of it


@mutation("a fork writes no metadata", (forking, "write_metadata"))
def _(original):
    return _nothing(original)


@mutation("a fork writes no marker", (forking, "find_outstanding"))
def _(original):
    return lambda tx, up_to=None: Outstanding((), ())


@mutation("a fork is not recorded", (History, "record"))
def _(original):
    return _nothing(original)


@mutation("sources and sinks of a fork are not recorded", (Identification, "record"))
def _(original):
    return _nothing(original)


@mutation("a fork does not say what it was forked from", (Fork, "__str__"))
def _(original):
    return lambda self: "fork"
