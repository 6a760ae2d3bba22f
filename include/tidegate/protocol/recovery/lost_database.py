"""Recovery from a lost database: the checkpoints of a pipeline that are recorded again from its checkpoint storage.

A checkpoint that is whole and has a marker had completed. One without a marker may or may not have, and none of its
rows is visible yet. The pipeline goes on from the one before, unless the user decides otherwise. Rows of later
checkpoints in tables would be duplicated if the pipeline went on, so they must be withdrawn.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256

from tidegate.protocol.facts.branches import Restore, branch_of, find_unfinished
from tidegate.protocol.facts.errors import MetadataError, PipelineIdentityError, RecoveryRefusedError
from tidegate.protocol.facts.paths import ByCheckpoint, ByRegion, metadata_path, writer_of
from tidegate.protocol.facts.records import CheckpointRecord, HandleKind
from tidegate.protocol.recovery.identity import Endpoint, Moved
from tidegate.protocol.recovery.marker import Marker
from tidegate.protocol.recovery.metadata import Metadata

#: Attempts that may have been given out and left nothing behind: none of them may be given out again.
WITHOUT_TRACE = 1000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A checkpoint with files on storage. `problem` is the reason why it cannot be recovered. Without one, `metadata`
    is there and every file that it needs is undamaged. `is_marked`: there is a marker, so it had completed. `marker` is
    None if it cannot be read."""

    checkpoint_id: int
    is_marked: bool
    metadata: Metadata | None
    marker: Marker | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Unrecovered:
    """A checkpoint that is not recorded, and the reason. `in_doubt`: it is whole, and may be included.
    `had_completed`: it has a marker."""

    checkpoint_id: int
    reason: str
    in_doubt: bool = False
    had_completed: bool = False


@dataclass(frozen=True, slots=True)
class Numbers:
    """The highest numbers in use, 0 for none: of checkpoints, of attempts of a region, of attempts at committing."""

    checkpoint_id: int = 0
    region_attempt: int = 0
    commit_attempt: int = 0

    def and_(self, other: "Numbers") -> "Numbers":
        return Numbers(
            max(self.checkpoint_id, other.checkpoint_id),
            max(self.region_attempt, other.region_attempt),
            max(self.commit_attempt, other.commit_attempt),
        )


@dataclass(frozen=True, slots=True)
class Recovered:
    """A checkpoint that is recorded again. `marker` None: it was in doubt, and completes now. `notified`: a later one
    follows it, and none begins before the sinks have committed."""

    metadata: Metadata
    marker: Marker | None
    notified: bool

    @property
    def record(self) -> CheckpointRecord:
        return self.metadata.record


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """The plan of a recovery. `checkpoints` is oldest first, and includes those that `restores` have left behind.
    `shown` are checkpoints that tables show and that the pipeline would not have behind it. `numbers` are not given out
    again."""

    pipeline_id: str
    checkpoints: tuple[Recovered, ...]
    restores: tuple[Restore, ...]
    unrecovered: tuple[Unrecovered, ...]
    shown: tuple[int, ...]
    moved: tuple[Moved, ...]
    numbers: Numbers

    @property
    def latest(self) -> Metadata:
        """The checkpoint that the pipeline goes on from."""
        return latest_of(self.checkpoints, self.restores).metadata

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        return self.latest.endpoints

    @property
    def lost(self) -> list[int]:
        """Later checkpoints that had completed, by their markers or by the tables, and are not recovered. Checkpoints
        that a restore has left behind are not among them, though tables may show them until they are rewound."""
        present, newest = branch_of(None, self.restores), self.latest.record.checkpoint_id
        marked = {each.checkpoint_id for each in self.unrecovered if each.had_completed}
        shown = set(self.shown)
        if find_unfinished(self.restores) is not None:
            shown -= {each.record.checkpoint_id for each in self.checkpoints}
        return sorted({id_ for id_ in marked if id_ > newest and id_ in present} | shown)


@dataclass(frozen=True, slots=True)
class AcceptedLosses:
    """The parts of a plan that the user has accepted. `withdraw`: take rows of lost checkpoints out of the tables.
    `moved`: sources and sinks were moved on purpose."""

    withdraw: bool = False
    moved: bool = False


def find_numbers(pipeline_id: str, paths: Iterable[str]) -> Numbers:
    """Find the highest numbers in the names on checkpoint storage. Performs no I/O."""
    numbers = Numbers()
    for path in paths:
        match writer_of(pipeline_id, path):
            case ByCheckpoint(checkpoint_id):
                numbers = numbers.and_(Numbers(checkpoint_id))
            case ByRegion(attempt):
                numbers = numbers.and_(Numbers(region_attempt=attempt))
    return numbers


def require_as_marked(marker: Marker, content: bytes) -> None:
    """Raise `MetadataError` if `content` is not the committed `_metadata`. Performs no I/O."""
    checksum = sha256(content).hexdigest()
    if checksum != marker.sha256:
        path = metadata_path(marker.pipeline_id, marker.checkpoint_id)
        raise MetadataError(
            f"{path} differs from the committed one: its SHA-256 is {checksum}, and its marker has {marker.sha256}."
        )


def require_own_handles(metadata: Metadata) -> None:
    """Check that all files belong to the pipeline, because they will be deleted with the recorded checkpoint. Raises
    `MetadataError`. Performs no I/O."""
    record = metadata.record
    for subtask, known in metadata.subtasks.items():
        for handle in known.snapshot.handles:
            plain = not any(part in ("", ".", "..") for part in handle.path.split("/"))
            own = handle.kind is HandleKind.STAGED or writer_of(record.pipeline_id, handle.path) is not None
            if not plain or not own or not 1 <= handle.created_by <= record.checkpoint_id:
                path = metadata_path(record.pipeline_id, record.checkpoint_id)
                raise MetadataError(f"{path} is damaged: {handle.path!r} is no file of {subtask} of this pipeline.")


def choose_recovered(
    candidates: Sequence[Candidate], include: Collection[int]
) -> tuple[list[Recovered], list[Restore], list[Unrecovered]]:
    """Choose the checkpoints that are recorded again, the pipeline's restores, and the checkpoints that are not
    recorded, all oldest first. `include` are the ids in doubt that the user has chosen. Raises `RecoveryRefusedError`
    if one of these is not in doubt. Performs no I/O."""
    newest_marked = max((each.checkpoint_id for each in candidates if each.is_marked), default=0)
    chosen: list[tuple[Metadata, Marker | None]] = []
    unrecovered = []
    for candidate in sorted(candidates, key=lambda each: each.checkpoint_id):
        refused = _refuse(candidate, newest_marked)
        is_included = refused is None or (refused.in_doubt and candidate.checkpoint_id in include)
        if candidate.metadata is not None and is_included:
            chosen.append((candidate.metadata, candidate.marker))
        elif refused is not None:
            unrecovered.append(refused)
    chosen = _named_once(chosen)
    _require_in_doubt(include, [metadata.record.checkpoint_id for metadata, _ in chosen], unrecovered)
    restores = _choose_restores(chosen)
    ids = [metadata.record.checkpoint_id for metadata, _ in chosen]
    recovered = [
        Recovered(
            metadata,
            marker,
            any(id_ in branch_of(later, restores) for later in ids if later > id_),
        )
        for id_, (metadata, marker) in zip(ids, chosen, strict=True)
    ]
    return recovered, restores, unrecovered


def _named_once(chosen: Sequence[tuple[Metadata, Marker | None]]) -> list[tuple[Metadata, Marker | None]]:
    """Remove repeated names of savepoints. `_metadata` has the first name of a savepoint. If a later savepoint has the
    same name, the earlier one was renamed, and its name is lost."""
    taken: set[str] = set()
    named = []
    for metadata, marker in reversed(chosen):
        record = metadata.record
        if record.name in taken:
            metadata = replace(metadata, record=record.moved(name=None))
        elif record.name is not None:
            taken.add(record.name)
        named.append((metadata, marker))
    return named[::-1]


def _choose_restores(chosen: Sequence[tuple[Metadata, Marker | None]]) -> list[Restore]:
    """Choose the longest recorded history, of which all others are the beginning. A restore with a later checkpoint is
    complete, because none begins before the sinks have been rewound."""
    histories = [metadata.restores for metadata, _ in chosen]
    histories += [marker.restores for _, marker in chosen if marker is not None]
    newest = max((metadata.record.checkpoint_id for metadata, _ in chosen), default=0)
    return [
        replace(restore, rewound_at=restore.rewound_at or restore.restored_at)
        if restore.last_checkpoint_id < newest
        else restore
        for restore in max(histories, key=len, default=())
    ]


def latest_of(recovered: Sequence[Recovered], restores: Sequence[Restore]) -> Recovered:
    """Return the newest checkpoint that no restore has left behind, from which the pipeline goes on. Performs no
    I/O."""
    present = branch_of(None, restores)
    return [each for each in recovered if each.record.checkpoint_id in present][-1]


def _refuse(each: Candidate, newest_marked: int) -> Unrecovered | None:
    if each.problem is not None or each.metadata is None:
        return Unrecovered(each.checkpoint_id, each.problem or "It has no metadata.", had_completed=each.is_marked)
    if each.is_marked:
        return None
    if each.checkpoint_id < newest_marked:
        return Unrecovered(
            each.checkpoint_id,
            "It has no marker, and a later checkpoint has: it had not completed, or was left behind.",
        )
    return Unrecovered(each.checkpoint_id, "It has no marker: it is unknown whether it had completed.", in_doubt=True)


def _require_in_doubt(include: Collection[int], chosen: Collection[int], unrecovered: Sequence[Unrecovered]) -> None:
    reasons = {each.checkpoint_id: each.reason for each in unrecovered}
    for checkpoint_id in sorted(set(include) - set(chosen)):
        reason = reasons.get(checkpoint_id, "Nothing of it is on the checkpoint storage.")
        raise RecoveryRefusedError(
            f"Checkpoint {checkpoint_id} is not in doubt and cannot be included: {reason} Nothing was changed."
        )


def require_any(
    pipeline_id: str,
    where: str,
    chosen: Sequence[Recovered],
    restores: Sequence[Restore],
    unrecovered: Sequence[Unrecovered],
) -> None:
    """Raise `RecoveryRefusedError` if there is no checkpoint to go on from. Performs no I/O."""
    present = branch_of(None, restores)
    if any(each.record.checkpoint_id in present for each in chosen):
        return
    reasons = " ".join(f"Checkpoint {each.checkpoint_id}: {each.reason}" for each in unrecovered[-5:])
    doubtful = [str(each.checkpoint_id) for each in unrecovered if each.in_doubt]
    then = f" To include one that is in doubt, add --include-doubtful {doubtful[-1]}." if doubtful else ""
    raise RecoveryRefusedError(
        f"Pipeline {pipeline_id} has no checkpoint on {where} that can be recovered. Nothing was changed. "
        + (reasons or "Nothing of the pipeline is there: check TIDEGATE_STORAGE, or add --from URL.")
        + then
    )


def require_unknown(pipeline_id: str, last_checkpoint_id: int) -> None:
    """Raise `RecoveryRefusedError` if the database has checkpoints of the pipeline. Performs no I/O."""
    if last_checkpoint_id:
        raise RecoveryRefusedError(
            f"This database already knows checkpoints of pipeline {pipeline_id}, up to {last_checkpoint_id}: nothing "
            "was recovered and nothing was changed. If a recovery was interrupted, it has taken effect: `tidegate "
            f"checkpoints {pipeline_id}` shows it. If a run began in an empty database, recover into another empty one "
            "(TIDEGATE_DATABASE_URL, `tidegate db upgrade`)."
        )


def require_losses_accepted(plan: RecoveryPlan, accepted: AcceptedLosses) -> None:
    """Raise `RecoveryRefusedError` or `PipelineIdentityError` if the user has not accepted a part of the plan. Performs
    no I/O."""
    newest = plan.latest.record.checkpoint_id
    if plan.lost and not accepted.withdraw:
        reasons = {each.checkpoint_id: each.reason for each in plan.unrecovered}
        lost = " ".join(
            f"Checkpoint {id_}: {reasons.get(id_, 'nothing of it is on the checkpoint storage.')}" for id_ in plan.lost
        )
        raise RecoveryRefusedError(
            f"Pipeline {plan.pipeline_id} was not recovered to checkpoint {newest}, because later ones had completed, "
            f"and their rows in tables would be duplicated. {lost} Nothing was changed. Bring the missing files back, "
            f"or add --withdraw: then the tables go back to checkpoint {newest}, and later input is read again."
        )
    if plan.moved and not accepted.moved:
        raise PipelineIdentityError(
            f"This is not pipeline {plan.pipeline_id} as its checkpoint {newest} knows it: "
            f"{'; '.join(map(str, plan.moved))}. Nothing was recovered, and nothing was changed. If this is another "
            "pipeline, its checkpoint storage is another one as well. If it was moved on purpose, with its tables, "
            "confirm that with --relocate."
        )


def withdrawing(plan: RecoveryPlan, numbers: Numbers, now: datetime) -> Restore | None:
    """Return the restore that takes the rows of lost checkpoints out of the tables; None if none is lost. Performs no
    I/O."""
    if not plan.lost:
        return None
    newest = plan.latest.record.checkpoint_id
    return Restore(len(plan.restores) + 1, newest, numbers.checkpoint_id, None, now)
