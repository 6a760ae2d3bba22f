"""Which checkpoints of a pipeline are recorded again from its checkpoint storage, when the database is lost.

A checkpoint that is whole and has a marker had completed. One without may or may not have, and nothing of it is
visible yet; the pipeline goes on from the one before unless a person decides otherwise. What tables show of later
checkpoints would be there twice if the pipeline went on, so it must be withdrawn.
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
    """A checkpoint of which something lies on storage. `problem` says why it cannot be recovered, else `metadata` is
    there and every file it needs is as it was written. `is_marked`: there is a marker, so it had completed; `marker`
    is None if that cannot be read."""

    checkpoint_id: int
    is_marked: bool
    metadata: Metadata | None
    marker: Marker | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Unrecovered:
    """A checkpoint that is not recorded, and why. `in_doubt`: it is whole, and may be included; `had_completed`: it
    has a marker."""

    checkpoint_id: int
    reason: str
    in_doubt: bool = False
    had_completed: bool = False


@dataclass(frozen=True, slots=True)
class Numbers:
    """The highest that anything carries, 0 for none: checkpoint ids, attempts of a region, attempts at committing."""

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
    """What a recovery does. `checkpoints` is oldest first, and has those that `restores` have left behind. `shown` are
    checkpoints that tables show and that the pipeline would not have behind it. `numbers` are not given out again."""

    pipeline_id: str
    checkpoints: tuple[Recovered, ...]
    restores: tuple[Restore, ...]
    unrecovered: tuple[Unrecovered, ...]
    shown: tuple[int, ...]
    moved: tuple[Moved, ...]
    numbers: Numbers

    @property
    def latest(self) -> Metadata:
        """What the pipeline goes on from."""
        return latest_of(self.checkpoints, self.restores).metadata

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        return self.latest.endpoints

    @property
    def lost(self) -> list[int]:
        """Later checkpoints that had completed, as their markers or the tables say, and are not recovered. What a
        restore has left behind is none of them, though tables may show it until they are rewound."""
        present, newest = branch_of(None, self.restores), self.latest.record.checkpoint_id
        marked = {each.checkpoint_id for each in self.unrecovered if each.had_completed}
        shown = set(self.shown)
        if find_unfinished(self.restores) is not None:
            shown -= {each.record.checkpoint_id for each in self.checkpoints}
        return sorted({id_ for id_ in marked if id_ > newest and id_ in present} | shown)


@dataclass(frozen=True, slots=True)
class AcceptedLosses:
    """Parts of a plan that a person has accepted. `withdraw`: take rows of what is lost out of the tables. `moved`:
    sources and sinks were moved on purpose."""

    withdraw: bool = False
    moved: bool = False


def find_numbers(pipeline_id: str, paths: Iterable[str]) -> Numbers:
    """What the names on checkpoint storage carry. Performs no I/O."""
    found = Numbers()
    for path in paths:
        match writer_of(pipeline_id, path):
            case ByCheckpoint(checkpoint_id):
                found = found.and_(Numbers(checkpoint_id))
            case ByRegion(attempt):
                found = found.and_(Numbers(region_attempt=attempt))
    return found


def require_as_marked(marker: Marker, content: bytes) -> None:
    """Raises `MetadataError` if `content` is not the `_metadata` that was committed. Performs no I/O."""
    found = sha256(content).hexdigest()
    if found != marker.sha256:
        path = metadata_path(marker.pipeline_id, marker.checkpoint_id)
        raise MetadataError(
            f"{path} is not what was committed: its SHA-256 is {found}, and the marker beside it says {marker.sha256}."
        )


def require_own_handles(metadata: Metadata) -> None:
    """Once a checkpoint is recorded, its files are deleted with it: none may be another pipeline's. Raises
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
    """What is recorded again, the pipeline's restores, and what is not recorded, all oldest first. `include` are ids of
    those in doubt that a person has chosen. Raises `RecoveryRefusedError` if one of these is not in doubt. Performs no
    I/O."""
    newest_marked = max((each.checkpoint_id for each in candidates if each.is_marked), default=0)
    chosen: list[tuple[Metadata, Marker | None]] = []
    unrecovered = []
    for each in sorted(candidates, key=lambda each: each.checkpoint_id):
        refused = _refuse(each, newest_marked)
        if each.metadata is not None and (refused is None or (refused.in_doubt and each.checkpoint_id in include)):
            chosen.append((each.metadata, each.marker))
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
    """`_metadata` has the name that a savepoint was given first. If another one was given it later, this one was
    renamed, and its name is lost."""
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
    """The longest history that anything knows: all others are its beginning. Nothing begins before the sinks have been
    rewound."""
    histories = [metadata.restores for metadata, _ in chosen]
    histories += [marker.restores for _, marker in chosen if marker is not None]
    newest = max((metadata.record.checkpoint_id for metadata, _ in chosen), default=0)
    return [
        replace(each, rewound_at=each.rewound_at or each.restored_at) if each.last_checkpoint_id < newest else each
        for each in max(histories, key=len, default=())
    ]


def latest_of(recovered: Sequence[Recovered], restores: Sequence[Restore]) -> Recovered:
    """The newest that no restore has left behind: what the pipeline goes on from. Performs no I/O."""
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
    return Unrecovered(each.checkpoint_id, "It has no marker: whether it had completed is not known.", in_doubt=True)


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
    """Raises `RecoveryRefusedError` if there is nothing to go on from. Performs no I/O."""
    present = branch_of(None, restores)
    if any(each.record.checkpoint_id in present for each in chosen):
        return
    reasons = " ".join(f"Checkpoint {each.checkpoint_id}: {each.reason}" for each in unrecovered[-5:])
    doubtful = [str(each.checkpoint_id) for each in unrecovered if each.in_doubt]
    then = f" To include one that is in doubt, add --include-doubtful {doubtful[-1]}." if doubtful else ""
    raise RecoveryRefusedError(
        f"Pipeline {pipeline_id} has no checkpoint on {where} that can be recovered. Nothing was changed. "
        + (reasons or "Nothing of the pipeline is there: look at TIDEGATE_STORAGE, or say --from.")
        + then
    )


def require_unknown(pipeline_id: str, last_checkpoint_id: int) -> None:
    """Raises `RecoveryRefusedError` if the database has checkpoints of the pipeline. Performs no I/O."""
    if last_checkpoint_id:
        raise RecoveryRefusedError(
            f"This database already knows checkpoints of pipeline {pipeline_id}, up to {last_checkpoint_id}: nothing "
            "was recovered and nothing was changed. If a recovery was interrupted, it has taken effect: `tidegate "
            f"checkpoints {pipeline_id}` shows it. If a run began in an empty database, recover into another empty one "
            "(TIDEGATE_DATABASE_URL, `tidegate db upgrade`)."
        )


def require_losses_accepted(plan: RecoveryPlan, accepted: AcceptedLosses) -> None:
    """Raises `RecoveryRefusedError`, `PipelineIdentityError`. Performs no I/O."""
    newest = plan.latest.record.checkpoint_id
    if plan.lost and not accepted.withdraw:
        reasons = {each.checkpoint_id: each.reason for each in plan.unrecovered}
        lost = " ".join(
            f"Checkpoint {id_}: {reasons.get(id_, 'nothing of it is on the checkpoint storage.')}" for id_ in plan.lost
        )
        raise RecoveryRefusedError(
            f"Pipeline {plan.pipeline_id} was not recovered to checkpoint {newest}, because later ones had completed, "
            f"and what tables show of them would be there twice. {lost} Nothing was changed. Bring back what is "
            f"missing, or say --withdraw: then the tables go back to checkpoint {newest}, and what was read since is "
            "read again."
        )
    if plan.moved and not accepted.moved:
        raise PipelineIdentityError(
            f"This is not pipeline {plan.pipeline_id} as its checkpoint {newest} knows it: "
            f"{'; '.join(map(str, plan.moved))}. Nothing was recovered, and nothing was changed. If this is another "
            "pipeline, its checkpoint storage is another one as well. If it was moved on purpose, with its tables, "
            "confirm that with --relocate."
        )


def withdrawing(plan: RecoveryPlan, numbers: Numbers, now: datetime) -> Restore | None:
    """The restore that takes what is lost out of the tables; None if nothing is. Performs no I/O."""
    if not plan.lost:
        return None
    newest = plan.latest.record.checkpoint_id
    return Restore(len(plan.restores) + 1, newest, numbers.checkpoint_id, None, now)
