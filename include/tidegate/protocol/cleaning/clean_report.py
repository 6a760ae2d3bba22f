"""The report of a cleaning: the cost of retained checkpoints, the findings, and the deletions.

`coordination.cleaning.clean` gathers the facts. A report is a value, like the plan of a restore.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tidegate.protocol.cleaning.retention import Reason, Why
from tidegate.protocol.facts.names import sink_of_operator
from tidegate.protocol.facts.records import CheckpointRecord, Deletion

#: Files, each by its owner and path, with their sizes in bytes.
Files = Mapping[Deletion, int]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of files. Each file counts once."""

    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """A retained checkpoint, and the reasons. `full` is the cost of all its files. `alone` is the cost of those that
    nothing else refers to: it would be freed with the checkpoint."""

    record: CheckpointRecord
    reasons: tuple[Reason, ...]
    full: Cost
    alone: Cost


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that is missing or differs from its handle. `problem` describes it in whole sentences. `checkpoints` are
    those that need it."""

    path: str
    problem: str
    checkpoints: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CleanReport:
    """The report. `total` is the cost of all that is kept, merged runs that no checkpoint uses yet included. `expired`
    checkpoints are too old, and `freed` is the cost of files that they alone refer to. `garbage` are files that nothing
    refers to. `withdrawn` are, by sink, checkpoints whose withdrawn rows are kept for a restore, and
    `withdrawn_for_good` those whose rows no restore can bring back. `foreign`: see `leftovers.Leftovers`. `read` are
    the files that were compared with their checksums.

    With `changed`, the expired checkpoints and the garbage are deleted. Without it, nothing was changed.
    """

    pipeline_id: str
    changed: bool
    kept: tuple[Kept, ...]
    total: Cost
    expired: tuple[CheckpointRecord, ...]
    freed: Cost
    garbage: tuple[Deletion, ...]
    withdrawn: Mapping[str, tuple[int, ...]]
    withdrawn_for_good: Mapping[str, tuple[int, ...]]
    foreign: tuple[int, ...]
    read: Cost
    damage: tuple[Damage, ...]

    @property
    def safe(self) -> list[int]:
        """The retained checkpoints without damage."""
        damaged = {id_ for damage in self.damage for id_ in damage.checkpoints}
        return [each.record.checkpoint_id for each in self.kept if each.record.checkpoint_id not in damaged]

    def lines(self) -> list[str]:
        """Return the report for a log, one sentence a line. Sizes are bytes."""
        lines = [
            f"Checkpoint {kept.record.checkpoint_id} is kept ({reasons_text(kept)}): {_size(kept.full)}, of which "
            f"{_size(kept.alone)} alone."
            for kept in self.kept
        ]
        return [*lines, f"Pipeline {self.pipeline_id} keeps {_size(self.total)}.", *self.summary()]

    def summary(self) -> list[str]:
        """Return the deletions, done or planned, and the problems, one sentence a line."""
        deleted, lines = "Deleted" if self.changed else "To be deleted", []
        if self.expired:
            ids = _ids(record.checkpoint_id for record in self.expired)
            lines.append(f"{deleted}: checkpoints that are too old, {ids}, with {_size(self.freed)}.")
        if self.garbage:
            shown = ", ".join(deletion.path for deletion in self.garbage[:10])
            more = "" if len(self.garbage) <= 10 else f" and {len(self.garbage) - 10} more"
            lines.append(f"{deleted}: {_files(len(self.garbage))} that nothing refers to, {shown}{more}.")
        for sink, ids_ in self.withdrawn_for_good.items():
            lines.append(f"{deleted}: rows that sink {sink} has withdrawn of checkpoints {_ids(ids_)}.")
        for sink, ids_ in self.withdrawn.items():
            lines.append(f"Kept for a restore: rows that sink {sink} has withdrawn of checkpoints {_ids(ids_)}.")
        if self.foreign:
            lines.append(
                f"Checkpoints {_ids(self.foreign)} have completed on the storage, and this database does not know "
                "them: it may be older than the storage. Their files may lie anywhere, so no search for unreferenced "
                "files was made. If you do not need these checkpoints, remove their directories."
            )
        return [*lines, f"Compared with checksums: {_size(self.read)}.", *self.damage_lines()]

    def damage_lines(self) -> list[str]:
        """Return the damaged files, the checkpoints that need them, and the checkpoints that are safe."""
        if not self.damage:
            return []
        lines = [f"{each.problem} Checkpoints that need it: {_ids(each.checkpoints)}." for each in self.damage]
        safe = f"No damage was found of checkpoints {_ids(self.safe)}." if self.safe else "No checkpoint is free of it."
        return [*lines, f"{safe} The tables are as they are. Nothing of pipeline {self.pipeline_id} was deleted."]


@dataclass(frozen=True, slots=True)
class Weights:
    """The costs of a cleaning. `each` has the full cost of a retained checkpoint, and the cost of its own files alone.
    See `CleanReport` for the others."""

    each: Mapping[int, tuple[Cost, Cost]]
    total: Cost
    freed: Cost


def weigh(
    kept: Mapping[int, Files], expired: Collection[Files], merged: Files, in_use: Collection[Deletion]
) -> Weights:
    """Compute the costs. `merged` are runs that no checkpoint uses yet, `in_use` the files of checkpoints in progress.

    Performs no I/O.
    """
    references = Counter(file for files in kept.values() for file in files)
    references.update({*merged, *in_use})
    each = {
        id_: (_cost(files), _cost({file: size for file, size in files.items() if references[file] == 1}))
        for id_, files in kept.items()
    }
    free = [{file: size for file, size in files.items() if file not in references} for files in expired]
    return Weights(each, _cost(*kept.values(), merged), _cost(*free))


def _cost(*files: Files) -> Cost:
    together: dict[Deletion, int] = {}
    for part in files:
        together |= part
    return Cost(len(together), sum(together.values()))


def reasons_text(kept: Kept) -> str:
    """Return the reasons in words: "latest, savepoint before the change". Performs no I/O."""
    return ", ".join(_reason(kept.record, reason) for reason in kept.reasons)


def _reason(record: CheckpointRecord, reason: Reason) -> str:
    match reason.why:
        case Why.SAVEPOINT:
            return f"savepoint {record.name or record.checkpoint_id}"
        case Why.UNNOTIFIED:
            return "its sinks have not committed"
        case Why.UNDO_UNTIL:
            return f"undo until {reason.until:%Y-%m-%d %H:%M} UTC"
        case Why.RETAINED_UNTIL:
            return f"retained until {reason.until:%Y-%m-%d %H:%M} UTC"
        case _:
            return reason.why.lower()


def by_sink(found: Mapping[str, Iterable[int]]) -> dict[str, tuple[int, ...]]:
    """Translate the operator ids of sinks to their names, and leave out empty entries. Performs no I/O."""
    return {sink_of_operator(id_): ids for id_, of in found.items() if (ids := tuple(of))}


def _size(of: Cost) -> str:
    return f"{_files(of.files)} ({of.bytes} bytes)"


def _files(number: int) -> str:
    return "1 file" if number == 1 else f"{number} files"


def _ids(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids))
