"""Skip rows that a source has lost before they were read. `protocol.recovery.skipping` decides the consequences.

One transaction records the skip, and aborts checkpoints in progress, which began at a position that is no longer
valid.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.observing.audit import UNAUDITED, AuditEntry
from tidegate.coordination.steps.checkpoint_failures import fail_checkpoint
from tidegate.coordination.steps.identity import Identification
from tidegate.coordination.steps.pipeline_status import abort_all
from tidegate.coordination.steps.region_lease import find_presence
from tidegate.pipeline.vertices import SourceVertex
from tidegate.ports import SkippingSource, StoreTransaction
from tidegate.protocol.continuous.regions import LiveRegion
from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointRecord, Snapshot, SubtaskId
from tidegate.protocol.recovery.skipping import (
    LostRows,
    SkipPlan,
    SourceSkip,
    apply_skips,
    require_as_planned,
    require_lost,
    require_skippable,
    segments_in_flight,
    with_segments,
)
from tidegate.protocol.text.sentences import reassured


@dataclass(frozen=True, slots=True)
class _Facts:
    """`snapshots` are those of the latest completed checkpoint, with earlier skips applied."""

    latest: CheckpointRecord
    in_progress: tuple[int, ...]
    snapshots: Mapping[SubtaskId, Snapshot]


class Skipping:
    """Skip lost rows of one pipeline's sources. Planning changes nothing."""

    def __init__(self, context: DefinedContext, identification: Identification) -> None:
        self._context = context
        self._pipeline_id = context.pipeline_id
        self._identification = identification

    def plan(self, source: str) -> SkipPlan:
        """Find the rows that a source has lost since the latest completed checkpoint.

        Raises `ConfigurationError` for a source that does not exist or cannot skip, `SkipRefusedError` if nothing is
        lost or rows that were read would be skipped, and the error of a source that cannot be reached.
        """
        vertex, connector = self._source(source)
        self._identification.check()
        with self._context.transaction() as tx:
            facts = self._facts(tx, source)
        skips = (*self._of_splits(vertex, connector, facts), *self._in_flight(vertex, connector, facts))
        before = {skip.subtask: facts.snapshots[skip.subtask].position for skip in skips}
        return require_lost(source, SkipPlan(source, facts.latest, facts.in_progress, skips, before))

    def skip(self, source: str, planned: SkipPlan | None = None, entry: AuditEntry = UNAUDITED) -> SkipPlan:
        """Carry out a plan, the one that was shown, if any, and return it. Repeating after a crash is safe: either
        nothing has happened, or the loss is skipped already.

        Raises as `plan` does, and `SkipRefusedError` if another checkpoint has become the latest since the plan was
        made.
        """
        plan = planned or self.plan(source)
        with self._context.transaction() as tx:
            self._identification.require(tx)
            facts = self._facts(tx, source)
            require_as_planned(plan, facts.latest, facts.snapshots)
            now = self._context.clock.now()
            why, reason = f"Lost rows of source {source} were skipped.", FailureReason.COORDINATOR_SUSPEND
            for checkpoint_id in facts.in_progress:  # a pipeline that was to stop with one of them goes on
                fail_checkpoint(tx, checkpoint_id, reason, reassured(why), now)
            abort_all(tx, reason, now, why)
            tx.end_region(tx.region().attempt, now)  # the region is dead, and its positions are no longer valid
            tx.record_skips([replace(skip, skipped_at=now) for skip in plan.skips])
            entry.done(tx, now, plan.sentence(), plan.checkpoint.checkpoint_id)
        return plan

    def _source(self, name: str) -> tuple[SourceVertex, SkippingSource]:
        skipping = [vertex for vertex in self._context.graph.sources if isinstance(vertex.source, SkippingSource)]
        for vertex in skipping:
            if vertex.name == name and isinstance(vertex.source, SkippingSource):
                return vertex, vertex.source
        raise ConfigurationError(
            f"Pipeline {self._pipeline_id} has no source {name!r} whose rows can be skipped. Those that have: "
            f"{', '.join(vertex.name for vertex in skipping) or 'none'}. Nothing was changed."
        )

    def _facts(self, tx: StoreTransaction, source: str) -> _Facts:
        in_progress, presence = tx.in_progress(), find_presence(tx, self._context.clock.now())
        is_live = isinstance(presence, LiveRegion)
        latest = require_skippable(source, tx.pipeline(), tx.latest_completed(), in_progress, is_live)
        known = {id_: subtask.snapshot for id_, subtask in tx.subtasks(latest.checkpoint_id).items()}
        snapshots = apply_skips(known, latest.checkpoint_id, tx.skips())
        return _Facts(latest, tuple(record.checkpoint_id for record in in_progress), snapshots)

    def _of_splits(self, vertex: SourceVertex, connector: SkippingSource, facts: _Facts) -> list[SourceSkip]:
        names, skips = {vertex.operator_id, vertex.previous.name}, []
        for subtask, snapshot in sorted(facts.snapshots.items()):
            if subtask.operator_id in names and snapshot.position and not snapshot.finished:
                skipped = connector.skip_lost(snapshot.position)
                if skipped is not None:
                    position = {**snapshot.position, **(skipped.rest or {})}
                    skips.append(self._skip(vertex, facts, subtask, position, tuple(skipped.lost)))
        return skips

    def _in_flight(self, vertex: SourceVertex, connector: SkippingSource, facts: _Facts) -> list[SourceSkip]:
        """Return skips for segments in flight of an unaligned checkpoint, which the next process that restores it reads
        again."""
        names = {vertex.operator_id} | ({vertex.previous.name} if vertex.previous.name else set())
        rest: dict[SubtaskId, dict[int, Mapping[str, object] | None]] = {}
        lost: dict[SubtaskId, list[LostRows]] = {}
        for subtask, place, reference in segments_in_flight(facts.snapshots, names):
            if (skipped := connector.cut_lost(reference)) is not None:
                rest.setdefault(subtask, {})[place] = skipped.rest
                lost.setdefault(subtask, []).extend(skipped.lost)
        return [
            self._skip(
                vertex, facts, id_, with_segments(facts.snapshots[id_].position or {}, remaining), tuple(lost[id_])
            )
            for id_, remaining in rest.items()
        ]

    def _skip(
        self,
        vertex: SourceVertex,
        facts: _Facts,
        subtask: SubtaskId,
        position: Mapping[str, object],
        lost: tuple[LostRows, ...],
    ) -> SourceSkip:
        at = self._context.clock.now()
        return SourceSkip(vertex.name, facts.latest.checkpoint_id, subtask, position, lost, at)
