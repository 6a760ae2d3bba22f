"""The plan of a restore, and the parts of it that the user must accept explicitly.

`coordination.recovery.restore` gathers the facts. A plan is a value: it is shown, compared, and refused or carried out.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from tidegate.protocol.facts.errors import RestoreRefusedError
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.recovery.identity import Moved
from tidegate.protocol.recovery.metadata import Edited
from tidegate.protocol.recovery.skipping import SkippedSince


@dataclass(frozen=True, slots=True)
class Reread:
    """The input that a source reads again, since the restored checkpoint. `missing` names the pieces that are gone or
    have changed since they were read, and so cannot be read again."""

    source: str
    pieces: int  # files, or other pieces that the source reads
    bytes: int
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReturningState:
    """An operator, and the state that it gets back. `matched`: the definition has it. Otherwise its state is dropped.
    `rows` counts the rows in its files, each file once: a key has one for each change since the last merge. `changes`
    are the differences of the columns, a phrase for each."""

    operator_id: str
    matched: bool
    rows: int
    bytes: int
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RewoundSink:
    """A sink, and the checkpoints whose rows are withdrawn from readers. Without `can_rewind`, its rows stay as they
    are. `rows` is their number, if they lie in no files."""

    sink: str
    can_rewind: bool
    withdrawn: tuple[int, ...] = ()
    files: int = 0
    bytes: int = 0
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The plan of a restore. `left_behind` are the completed checkpoints that become abandoned, `coming_back` those
    that no longer are, and `aborted` those in progress. `previous` is the latest completed checkpoint now. `origin` is
    the savepoint's directory if the state is copied from one. `moved` are the sources and sinks whose places differ
    from the savepoint's, if the database does not know the pipeline. `edited` is the origin of state that a user has
    written. `skipped` are lost rows that were skipped since, and that the pipeline encounters again."""

    checkpoint: CheckpointRecord
    previous: CheckpointRecord | None
    undoes: int | None
    left_behind: tuple[int, ...]
    coming_back: tuple[int, ...]
    aborted: tuple[int, ...]
    sources: tuple[Reread, ...]
    operators: tuple[ReturningState, ...]
    sinks: tuple[RewoundSink, ...]
    origin: str | None = None
    moved: tuple[Moved, ...] = ()
    edited: Edited | None = None
    skipped: tuple[SkippedSince, ...] = ()

    def lines(self) -> list[str]:
        """Return the plan for a log, one sentence a line. Sizes are bytes."""
        lines = [f"Back to checkpoint {self.checkpoint.checkpoint_id} of pipeline {self.checkpoint.pipeline_id}."]
        if self.origin is not None:
            lines.append(f"Its state is copied from {self.origin}.")
        if self.edited is not None:
            lines.append(str(self.edited))
        lines += [f"Moved: {moved}." for moved in self.moved]
        for what, ids in (
            ("Checkpoints left behind", self.left_behind),
            ("Checkpoints that come back", self.coming_back),
            ("In progress, and aborted", self.aborted),
        ):
            if ids:
                lines.append(f"{what}: {', '.join(map(str, ids))}.")
        for source in self.sources:
            missing = f", of which {len(source.missing)} are gone or have changed" if source.missing else ""
            lines.append(f"Source {source.source} reads {source.pieces} files ({source.bytes} bytes) again{missing}.")
        lines += [f"{skipped}." for skipped in self.skipped]
        for state in self.operators:
            what = "gets back" if state.matched else "is not in the definition, and loses"
            lines.append(f"Operator {state.operator_id} {what} {state.rows} rows in files ({state.bytes} bytes).")
            lines += [f"Operator {state.operator_id}: {change}." for change in state.changes]
        for sink in self.sinks:
            if not sink.can_rewind:
                lines.append(f"Sink {sink.sink} cannot go back.")
            elif sink.withdrawn:
                shown = ", ".join(map(str, sink.withdrawn))
                what = f"{sink.files} files" if sink.rows is None else f"{sink.rows} rows"
                lines.append(f"Sink {sink.sink} withdraws checkpoints {shown}: {what} ({sink.bytes} bytes).")
        return lines


@dataclass(frozen=True, slots=True)
class Accepted:
    """The parts of a plan that the user accepts in advance: rows that cannot be read again are skipped, sinks of these
    names keep their rows, state without an operator is dropped, and sources and sinks were moved on purpose."""

    skip_missing_files: bool = False
    leave: Collection[str] = field(default_factory=tuple)
    non_restored_state: bool = False
    moved: bool = False


def require_accepted(plan: RestorePlan, accepted: Accepted) -> None:
    """Raise `RestoreRefusedError` with every part of the plan that is not accepted. Performs no I/O."""
    pipeline_id, problems = plan.checkpoint.pipeline_id, []
    for source in plan.sources:
        if source.missing and not accepted.skip_missing_files:
            shown = ", ".join(source.missing[:5]) + (", …" if len(source.missing) > 5 else "")
            problems.append(
                f"source {source.source} would read {len(source.missing)} files again that are gone or have changed "
                f"({shown}); put them back, or lose their rows with --missing-files skip"
            )
    lost = [each.operator_id for each in plan.operators if not each.matched]
    if lost and not accepted.non_restored_state:
        problems.append(
            f"the definition has no operator for the state of {', '.join(lost)}; restore the old names, or drop that "
            "state with --allow-non-restored-state"
        )
    if stuck := [each.sink for each in plan.sinks if not each.can_rewind and each.sink not in accepted.leave]:
        options = " ".join(f"--leave {sink}" for sink in stuck)
        problems.append(
            f"the rows that {', '.join(stuck)} has shown since cannot be withdrawn, and recomputed rows would be "
            f"duplicated; accept that they stay with {options}"
        )
    if strange := sorted(set(accepted.leave) - {each.sink for each in plan.sinks}):
        problems.append(f"it has no sink {', '.join(strange)} that could be left as it is; correct --leave")
    if plan.moved and not accepted.moved:
        problems.append(
            f"{'; '.join(map(str, plan.moved))}; if that was moved on purpose, with its tables, confirm it with "
            "--relocate"
        )
    if problems:
        raise RestoreRefusedError(
            f"Pipeline {pipeline_id} was not restored to checkpoint {plan.checkpoint.checkpoint_id}: "
            f"{'; '.join(problems)}. Nothing was changed."
        )
