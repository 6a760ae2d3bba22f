"""Skips: after a source has lost rows that were not read yet, the next checkpoint goes on behind them.

The position of a source is part of the latest completed checkpoint, which never changes. So a skip is a separate
record. A pipeline that goes on from that checkpoint, now or after a restore, begins with the positions of the record. A
restore to an earlier checkpoint goes back to before the skip, and needs another one.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import SkipRefusedError
from tidegate.protocol.facts.lifecycle import Phase
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.records import CheckpointRecord, Snapshot, SubtaskId

#: The statuses of pipelines that read nothing any more.
_ENDED = (PipelineStatus.FINISHED, PipelineStatus.CANCELLED)
#: The largest number of parts that a sentence names.
_NAMED = 10


@dataclass(frozen=True, slots=True)
class LostRows:
    """Rows of one part of a source that will never be read.

    Attributes:
        part: The part, such as a partition of a topic.
        first: The first of them, such as an offset.
        last: The last of them; None if it is unknown, because the part is gone or was created again.
        next: The place where reading goes on; None if the part is gone.
    """

    part: str
    first: int
    last: int | None
    next: int | None

    def __str__(self) -> str:
        lost = f"{self.first} and later" if self.last is None else f"{self.first} to {self.last}"
        goes_on = "the part is gone" if self.next is None else f"goes on at {self.next}"
        return f"{self.part}: {lost} ({goes_on})"


@dataclass(frozen=True, slots=True)
class SourceSkip:
    """A record that replaces the position of one subtask of a checkpoint: that of a split of a source, or that of an
    operator with segments in flight. `lost` are the rows that are therefore never read."""

    source: str
    checkpoint_id: int
    subtask: SubtaskId
    position: Mapping[str, Any]
    lost: tuple[LostRows, ...]
    skipped_at: datetime


@dataclass(frozen=True, slots=True)
class SkipPlan:
    """The plan of a skip. The next checkpoint goes on from `checkpoint`. `aborted` are those in progress, and `before`
    are the positions that it replaces."""

    source: str
    checkpoint: CheckpointRecord
    aborted: tuple[int, ...]
    skips: tuple[SourceSkip, ...]
    before: Mapping[SubtaskId, Mapping[str, Any] | None] = field(default_factory=dict)

    @property
    def lost(self) -> tuple[LostRows, ...]:
        return tuple(sorted((rows for skip in self.skips for rows in skip.lost), key=_in_order))

    def sentence(self) -> str:
        return (
            f"Source {self.source} of pipeline {self.checkpoint.pipeline_id} goes on after checkpoint "
            f"{self.checkpoint.checkpoint_id} without rows that it has lost: {listed(self.lost)}."
        )


@dataclass(frozen=True, slots=True)
class SkippedSince:
    """A skip that a restore undoes, because it goes back to an earlier checkpoint."""

    source: str
    checkpoint_id: int
    lost: tuple[LostRows, ...]

    def __str__(self) -> str:
        return (
            f"Source {self.source} reaches the rows again that were skipped after checkpoint {self.checkpoint_id} "
            f"({listed(self.lost)}), and any lost since. Skip them again with `tidegate source skip`"
        )


def listed(lost: Sequence[LostRows]) -> str:
    """List lost rows for a sentence."""
    more = f"; and of {len(lost) - _NAMED} more parts" if len(lost) > _NAMED else ""
    return "; ".join(str(rows) for rows in lost[:_NAMED]) + more


def require_skippable(
    source: str,
    pipeline: PipelineRecord,
    latest: CheckpointRecord | None,
    in_progress: Iterable[CheckpointRecord],
    has_live_region: bool,
) -> CheckpointRecord:
    """Return the checkpoint that the next one goes on from. Rows that were read are not skipped, so none of its
    successors may have all of its snapshots, and no region may run. Raises `SkipRefusedError`. Performs no I/O."""
    id_ = pipeline.pipeline_id
    if pipeline.status in _ENDED:
        raise _refused(source, id_, f"The pipeline is {pipeline.status}, and reads nothing any more")
    if has_live_region:
        raise _refused(
            source,
            id_,
            "A continuous run is alive, and may have read them. If it cannot go on, suspend the pipeline with "
            f"`tidegate suspend {id_}`, repeat this, and then resume it",
        )
    for record in in_progress:
        if record.phase is not Phase.TRIGGERED:
            number = record.checkpoint_id
            raise _refused(
                source,
                id_,
                f"Checkpoint {number} has read all that it needs. Let it complete, or abort it with `tidegate abort "
                f"{id_} {number}`, then repeat this",
            )
    if latest is None:
        raise _refused(
            source,
            id_,
            "No checkpoint of it has completed, so its sources begin at their start. If one is in progress that cannot "
            f"go on, abort it with `tidegate abort {id_}`",
        )
    return latest


def require_lost(source: str, plan: SkipPlan) -> SkipPlan:
    """Raise `SkipRefusedError` if there is nothing to skip. Performs no I/O."""
    if not plan.skips:
        id_ = plan.checkpoint.pipeline_id
        raise _refused(
            source,
            id_,
            f"It has lost nothing since checkpoint {plan.checkpoint.checkpoint_id}. If a checkpoint in progress cannot "
            f"read its input again, abort it with `tidegate abort {id_}`: the next one reads the present input",
        )
    return plan


def require_as_planned(plan: SkipPlan, latest: CheckpointRecord, snapshots: Mapping[SubtaskId, Snapshot]) -> None:
    """Check that the pipeline is still where the plan was made. `snapshots` are those of the latest checkpoint, with
    earlier skips applied. Raises `SkipRefusedError`. Performs no I/O."""
    now = {subtask: snapshots[subtask].position for subtask in plan.before if subtask in snapshots}
    if latest.checkpoint_id != plan.checkpoint.checkpoint_id or now != plan.before:
        raise _refused(
            plan.source,
            latest.pipeline_id,
            f"Since the plan was made, the pipeline has moved on, to behind checkpoint {latest.checkpoint_id}. Make a "
            "new plan",
        )


def apply_skips(
    snapshots: Mapping[SubtaskId, Snapshot], checkpoint_id: int, skips: Iterable[SourceSkip]
) -> dict[SubtaskId, Snapshot]:
    """Apply skips to the snapshots of a checkpoint. A later skip of the same checkpoint replaces earlier ones. Performs
    no I/O."""
    skipped = dict(snapshots)
    for skip in skips:
        if skip.checkpoint_id == checkpoint_id and skip.subtask in skipped:
            skipped[skip.subtask] = replace(skipped[skip.subtask], position=skip.position)
    return skipped


def segments_in_flight(
    snapshots: Mapping[SubtaskId, Snapshot], names: Collection[str]
) -> Iterator[tuple[SubtaskId, int, Mapping[str, Any]]]:
    """Return the segments of a source that an unaligned checkpoint holds, by the subtask that records them and their
    place in its position. Performs no I/O."""
    for subtask, snapshot in sorted(snapshots.items()):
        for place, (channel, data) in enumerate((snapshot.position or {}).get("in_flight", ())):
            if channel.partition("/")[0] in names and "handles" not in data:
                yield subtask, place, data["reference"]


def with_segments(position: Mapping[str, Any], rest: Mapping[int, Mapping[str, Any] | None]) -> dict[str, Any]:
    """Return an operator's position with the rest of the segments that are in flight to it, by their place; None for a
    segment without a rest. Performs no I/O."""
    kept = []
    for place, (channel, data) in enumerate(position["in_flight"]):
        if place not in rest:
            kept.append([channel, data])
        elif (reference := rest[place]) is not None:
            kept.append([channel, {**data, "reference": dict(reference)}])
    return {**position, "in_flight": kept}


def skipped_since(skips: Iterable[SourceSkip], checkpoint_id: int, behind: Branch) -> tuple[SkippedSince, ...]:
    """Return the skips that a restore to a checkpoint undoes, on the branch that the pipeline has `behind` it. Each may
    be needed again. The skip of that checkpoint itself still counts, and is not among them. Performs no I/O."""
    undone: dict[tuple[str, int], list[LostRows]] = {}
    for skip in skips:
        if skip.checkpoint_id > checkpoint_id and skip.checkpoint_id in behind:
            undone.setdefault((skip.source, skip.checkpoint_id), []).extend(skip.lost)
    return tuple(SkippedSince(*key, tuple(sorted(lost, key=_in_order))) for key, lost in undone.items())


def _in_order(rows: LostRows) -> tuple[int, str, int]:
    """Return a sort key that orders parts with numbers as numbers."""
    return len(rows.part), rows.part, rows.first


def _refused(source: str, pipeline_id: str, why: str) -> SkipRefusedError:
    return SkipRefusedError(
        f"No rows of source {source} of pipeline {pipeline_id} were skipped. {why}. Nothing was changed."
    )
