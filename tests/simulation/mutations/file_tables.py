"""Planted mistakes around tables of files: a pointer that the transaction swaps, and files that stay where they were
staged."""

from simulator.file_sinks import FilesSink, Swap
from simulator.file_tables import FileTable
from simulator.running_files import FilesTable

from mutations.planting import mutation
from tidegate.coordination.steps import notify, participating
from tidegate.coordination.steps.rewinding_sinks import Rewinding
from tidegate.iceberg import keeping
from tidegate.protocol.facts.records import CheckpointKind


@mutation("files that a table has taken over are swept", (FileTable, "taken_over"))
def _(original):
    return property(lambda self: frozenset())


@mutation("only what readers see of a table of files is kept", (FileTable, "reach"))
def _(original):
    return property(lambda self: frozenset(self.files))


@mutation("the snapshot of a checkpoint that a restore can go back to expires", (keeping, "expire"))
def _(original):
    return lambda draft, kept: original(draft, kept and [max(kept)])


def _forgetting(is_kept):
    """Sinks are told that fewer checkpoints are kept."""

    def forget(self):
        found = [each.sink for each in self._own() if isinstance(each.sink, FilesSink | FilesTable)]
        with self._context.transaction() as tx:
            kept = [r.checkpoint_id for r in (*tx.retained(), *tx.abandoned()) if is_kept(r)]
        for sink in found if kept else ():
            sink.forget(kept)

    return forget


@mutation("the snapshot of a savepoint expires", (Rewinding, "_forget"))
def _(original):
    return _forgetting(lambda record: record.kind is CheckpointKind.CHECKPOINT)


@mutation("the snapshot that an undo goes back to expires", (Rewinding, "_forget"))
def _(original):
    return _forgetting(lambda record: record.abandoned_by is None)


@mutation("files that a table releases are deleted before the commit", (Swap, "_execute"))
def _(original):
    def execute(self, tables):
        before = self.sink.table(tables).reach
        found = original(self, tables)
        self.sink._delete(sorted(before - self.sink.table(tables).reach))
        return found

    return execute


@mutation(
    "a sink that keeps what each checkpoint showed is not told of one after it has finished",
    (participating, "choose_notified"),
    (notify, "choose_notified"),
)
def _(original):
    return lambda subtasks, keeping: original(subtasks, ())
