"""Forks: a pipeline that begins with another one's state. This module decides on refusals, files and the plan.

The original pipeline is only read. Every file is copied, even if both have the same checkpoint storage, because each
deletes its own files from then on. Rows that are staged for a sink stay the original's. A table of current rows is
staged from the state, like that of any sink that writes to a new place. A table of appended rows starts empty.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.protocol.facts.errors import ForkRefusedError
from tidegate.protocol.facts.names import STORAGE, Fork, is_sink
from tidegate.protocol.facts.paths import directory, write_prefix
from tidegate.protocol.facts.pipelines import ACTIVE, PipelineRecord, PipelineStatus
from tidegate.protocol.facts.records import CheckpointRecord, HandleKind, Snapshot, StateHandle, SubtaskId
from tidegate.protocol.recovery.canonical import FileCopy
from tidegate.protocol.recovery.identity import Endpoint, Moved, Role, find_moved
from tidegate.protocol.recovery.imports import Imported
from tidegate.protocol.recovery.restore_plan import Accepted, ReturningState
from tidegate.protocol.steps.restored_snapshots import WRITTEN_AS, Renamed

_TAKEN = (HandleKind.RUN, HandleKind.POSITION)


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A source, and the input that is not read again because the original had read it. `is_known` False: the checkpoint
    has no position of the source, so it is read from its beginning. `pieces` is None if the source cannot report it."""

    source: str
    is_known: bool
    pieces: int | None = None  # files, or other pieces that the source reads
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class NewTable:
    """A sink's table. `is_filled`: the first run stages all current rows from the state. Otherwise it starts empty."""

    sink: str
    is_filled: bool


@dataclass(frozen=True, slots=True)
class ForkPlan:
    """The plan of a fork. `checkpoint` is the original's, and its files are copied from `url`. `new` are keyed
    operators without state in the checkpoint. `moved` are sources with another place than the original's of that name.
    `dropped` are operators with state or a position that the definition does not have."""

    pipeline_id: str
    fork: Fork
    checkpoint: CheckpointRecord
    url: str
    sources: tuple[TakenOver, ...]
    operators: tuple[ReturningState, ...]
    new: tuple[str, ...]
    sinks: tuple[NewTable, ...]
    moved: tuple[Moved, ...]
    dropped: tuple[str, ...]


# -- refused


def require_another(pipeline_id: str, original: str) -> None:
    """Raise `ForkRefusedError` if a pipeline is to be forked to itself. Performs no I/O."""
    if pipeline_id == original:
        raise not_forked(
            pipeline_id,
            original,
            "a pipeline cannot be forked to itself. Give the new one a name of its own, and tables of its own; to go "
            f"back to an earlier checkpoint, run `tidegate restore {pipeline_id}`",
        )


def require_unknown(pipeline: PipelineRecord, fork: Fork, newest: CheckpointRecord | None) -> None:
    """Check that the pipeline has not begun. `newest` is its newest checkpoint in the database, of any status. Raises
    `ForkRefusedError`. Performs no I/O."""
    name = pipeline.pipeline_id
    before = None if newest is None else Fork.parse(newest.request_id)
    if newest is not None and before is not None and before.is_of(fork):
        raise not_forked(
            name,
            fork.describe(),
            f"it was forked before, as its checkpoint {newest.checkpoint_id}. If that command was cut short, it has "
            f"taken effect: `tidegate run {name}` goes on from there",
        )
    if newest is not None:
        raise not_forked(
            name,
            fork.describe(),
            f"this database knows checkpoints of it, up to {newest.checkpoint_id}. A fork begins a pipeline: give the "
            "new one another name, and tables of its own",
        )
    if pipeline.status not in ACTIVE | {PipelineStatus.SUSPENDED}:
        raise not_forked(name, fork.describe(), f"it is {pipeline.status}. Give the new pipeline another name")


def require_own_tables(
    pipeline_id: str, fork: Fork, theirs: Iterable[Endpoint], ours: Sequence[Endpoint], used: Collection[str]
) -> None:
    """Check that the fork writes to tables of its own. `theirs` are sources and sinks of the original, as recorded and
    as defined. `used` are the sinks whose places already have rows. Raises `ForkRefusedError`. Performs no I/O."""
    sinks = {each for each in theirs if each.role is Role.SINK}
    for endpoint in ours:
        for other in sorted(sinks, key=lambda one: one.key):
            if endpoint.role is Role.SINK and _is_same_place(endpoint, other):
                raise not_forked(
                    pipeline_id,
                    fork.describe(),
                    f"its sink {endpoint.name!r} ({endpoint}) writes where sink {other.name!r} of pipeline "
                    f"{fork.pipeline_id} does ({other}), and their rows would be mixed. Give it a place of its own",
                )
    if used:
        raise not_forked(
            pipeline_id,
            fork.describe(),
            f"the place of its sink {', '.join(used)} is not empty. A fork's tables begin empty: give the sink an "
            "empty place, or move the content away",
        )


def _is_same_place(one: Endpoint, other: Endpoint) -> bool:
    """Whether two places are the same, or one is below the other. A sink without a place is compared by its type."""
    if not one.place or not other.place:
        return one.place == other.place and one.type == other.type
    here, there = f"{one.place}/", f"{other.place}/"
    return here.startswith(there) or there.startswith(here)


def require_nothing_in_flight(pipeline_id: str, fork: Fork, snapshots: Iterable[Snapshot]) -> None:
    """Raise `ForkRefusedError` for an unaligned checkpoint with rows between operators. Performs no I/O."""
    kinds = {handle.kind for snapshot in snapshots for handle in snapshot.handles}
    if HandleKind.CHANNEL in kinds or any((snapshot.position or {}).get("in_flight") for snapshot in snapshots):
        raise not_forked(
            pipeline_id,
            fork.describe(),
            "that is unaligned, and holds in-flight data. A savepoint holds none: take one with `tidegate savepoint "
            f"{fork.pipeline_id} --name NAME`, and fork from it with --savepoint NAME",
        )


def require_fork_accepted(plan: ForkPlan, accepted: Accepted) -> None:
    """Raise `ForkRefusedError` with every part of the plan that is not accepted. Performs no I/O."""
    problems = []
    if plan.dropped and not accepted.non_restored_state:
        problems.append(
            f"the definition has no operator for the state of {', '.join(plan.dropped)}; restore the old names, give "
            "the former names with previous=…, or drop that state with --allow-non-restored-state"
        )
    if plan.moved and not accepted.moved:
        problems.append(
            f"{'; '.join(map(str, plan.moved))}; the position in one place has no meaning in another. If the same data "
            "was moved or copied there, confirm it with --relocate; else give the source another name"
        )
    if problems:
        raise not_forked(plan.pipeline_id, plan.fork.describe(), "; ".join(problems))


def not_forked(pipeline_id: str, where: str, why: str) -> ForkRefusedError:
    """Return the error. `where` names the original, as `Fork.describe` does."""
    return ForkRefusedError(
        f"Pipeline {pipeline_id} was not forked from {where}: {why.rstrip('.')}. Nothing was changed."
    )


# -- its files


def forked(
    snapshots: Mapping[SubtaskId, Snapshot], dropped: Collection[str], pipeline_id: str, checkpoint_id: int
) -> Imported:
    """Return the state and the positions of the original, with files of the new pipeline's first checkpoint,
    `checkpoint_id`. A file that subtasks share is copied once. Nothing is kept of `dropped` operators. Sinks are
    triggered at least once, even if no more input will arrive, because their tables are new. Performs no I/O."""
    below = directory(pipeline_id, checkpoint_id)
    taken, copies = {}, dict[tuple[str, str], FileCopy]()
    for subtask, snapshot in sorted(snapshots.items()):
        if subtask.operator_id in dropped:
            taken[subtask] = Snapshot(finished=snapshot.finished)
            continue
        handles = []
        for handle in snapshot.handles:
            if handle.kind not in _TAKEN:
                continue
            known = (subtask.operator_id, handle.path)
            if known not in copies:
                path = f"{write_prefix(below, subtask, 1)}-{len(copies)}{_ending(handle)}"
                copies[known] = FileCopy(STORAGE, handle, path)
            details = {name: value for name, value in handle.details.items() if name != WRITTEN_AS}
            handles.append(replace(handle, path=copies[known].path, created_by=checkpoint_id, details=details))
        finished = snapshot.finished and not is_sink(subtask.operator_id)
        taken[subtask] = replace(snapshot, handles=tuple(handles), finished=finished)
    return Imported(taken, list(copies.values()))


def _ending(handle: StateHandle) -> str:
    return "".join(handle.path.rpartition("/")[2].partition(".")[1:])


def find_moved_sources(theirs: Sequence[Endpoint], ours: Sequence[Endpoint], renamed: Renamed) -> list[Moved]:
    """Find sources with another place than the original's, renamed ones included. Performs no I/O."""
    now = {former: name for name, former in renamed.items()}
    sources = [replace(each, name=now.get(each.name, each.name)) for each in theirs if each.role is Role.SOURCE]
    return find_moved(sources, ours)
