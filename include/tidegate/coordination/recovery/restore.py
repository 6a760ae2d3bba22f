"""The restore step: return a pipeline to an earlier checkpoint, with its state, positions and tables.

One transaction is the commit point. It records which checkpoint is the latest, and fences all earlier processes.
Then the sinks are rewound (see `rewind`). A plan always comes first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.observing.audit import UNAUDITED, AuditEntry
from tidegate.coordination.recovery.change_plan import Planning
from tidegate.coordination.recovery.restore_plan import RestoreFacts, RestorePlanner
from tidegate.coordination.steps.identity import Identification
from tidegate.coordination.steps.notify import Delivery
from tidegate.coordination.steps.outstanding import find_outstanding
from tidegate.coordination.steps.participating import Participants, Participating
from tidegate.coordination.steps.pipeline_status import abort_all, find_forgiven
from tidegate.ports import RewindableSink, StoreTransaction
from tidegate.protocol.facts.branches import (
    Branch,
    Restore,
    choose_undone,
    require_restorable,
)
from tidegate.protocol.facts.errors import RestoreRefusedError, SinkError, StateIntegrityError, StorageError
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    CheckpointRecord,
    CompactedRun,
    Snapshot,
    SubtaskId,
    SubtaskRecord,
)
from tidegate.protocol.recovery.restore_plan import (
    Accepted,
    RestorePlan,
    require_accepted,
)
from tidegate.protocol.steps.finalize import choose_sample, referred_files
from tidegate.protocol.steps.notify import committables
from tidegate.protocol.steps.restored_snapshots import choose_newer, choose_obsolete

Snapshots = Mapping[SubtaskId, Snapshot]


@dataclass(frozen=True, slots=True)
class ToCheckpoint:
    """A restore to this checkpoint, by default the latest completed one."""

    checkpoint_id: int | None


@dataclass(frozen=True, slots=True)
class Undo:
    """A restore to the position before the last restore."""


Target = ToCheckpoint | Undo


class Restoring:
    """Restore one pipeline. Planning changes nothing."""

    def __init__(
        self,
        context: DefinedContext,
        delivery: Delivery,
        identification: Identification,
        planning: Planning,
        participants: Participants,
    ) -> None:
        self._context = context
        self._pipeline_id = context.pipeline_id
        self._delivery = delivery
        self._identification = identification
        self._participants = participants
        self._planner = RestorePlanner(context, planning)

    # -- the plan

    def plan(self, target: Target) -> RestorePlan:
        """Plan a restore.

        Raises `CheckpointNotFoundError`, `CheckpointNotRetainedError`, `NothingToUndoError`, `StateSchemaError` if
        the definition cannot continue from that checkpoint, `StateIntegrityError` if one of its files is missing or
        damaged.
        """
        self._identification.check()
        while True:
            with self._context.transaction() as tx:
                facts, compactions = self._facts(tx, target), tx.compactions()
            try:
                return self._plan(facts, compactions)
            except StateIntegrityError:  # if the checkpoint was replaced meanwhile, raise that, or plan for another one
                with self._context.transaction() as tx:
                    current = self._facts(tx, target)
                if _ends(current) == _ends(facts):
                    raise

    def _plan(self, facts: RestoreFacts, compactions: Sequence[CompactedRun]) -> RestorePlan:
        subtasks = self._context.store.subtasks(self._pipeline_id, facts.record.checkpoint_id)
        self._verify(subtasks, facts.restore.last_checkpoint_id + 1)
        return self._planner.plan(facts, subtasks, compactions, self._context.storage)

    def _verify(self, subtasks: Mapping[SubtaskId, SubtaskRecord], turn: int) -> None:
        """Verify the files of the checkpoint, and those that tables of current rows would show. Once the restore is
        recorded, it is too late. A sample is read in full. Raises `StateIntegrityError`."""
        files = referred_files(known.snapshot for known in subtasks.values())
        self._context.storage.verify(files, choose_sample(turn, files))
        for vertex in self._context.graph.sinks:
            if vertex.operator_id in self._context.graph.restaged and isinstance(vertex.sink, RewindableSink):
                shown = committables(subtasks, vertex.operator_id)
                vertex.sink.verify(shown, choose_sample(turn, shown))

    def _facts(self, tx: StoreTransaction, target: Target) -> RestoreFacts:
        self._identification.require(tx)
        restores, retained, abandoned = tx.restores(), tx.retained(), tx.abandoned()
        previous = tx.latest_completed()
        undone = choose_undone(self._pipeline_id, restores) if isinstance(target, Undo) else None
        wanted = undone.previous_checkpoint_id if undone is not None else _wanted(target, previous)
        completed = sorted((*retained, *abandoned), key=lambda record: record.checkpoint_id)
        record = require_restorable(
            self._pipeline_id, wanted or 0, None if wanted is None else tx.checkpoint(wanted), completed
        )
        restore = Restore(
            len(restores) + 1,
            record.checkpoint_id,
            tx.last_checkpoint_id(),
            None if previous is None else previous.checkpoint_id,
            self._context.clock.now(),
            None if undone is None else undone.number,
        )
        return RestoreFacts(record, previous, restore, restores, retained, abandoned, tx.in_progress(), tx.skips())

    # -- the restore itself

    def restore(
        self, target: Target, accepted: Accepted, planned: RestorePlan | None = None, entry: AuditEntry = UNAUDITED
    ) -> RestorePlan:
        """Carry out a plan, the one that was shown, if any, and return it. Repeating after a crash is safe: either
        nothing has happened, or the restore is recorded and the next process rewinds its sinks.

        Sinks in the commit are rewound in the transaction of the restore, the others after it.

        Raises as `plan` does, `RestoreRefusedError` for consequences that are not accepted, or if a checkpoint has
        completed since the plan was made, and the errors of sinks. Errors of sinks in the commit prevent the
        restore. After an error of another sink the restore is valid, and the sinks are rewound later.
        """
        plan = planned or self.plan(target)
        if self._context.config.allow_non_restored_state:
            accepted = replace(accepted, non_restored_state=True)
        require_accepted(plan, accepted)
        present, participating = self._prepare(plan, target)
        with self._context.transaction(None, participating.participants) as tx:
            facts = self._facts(tx, target)
            self._require_as_planned(plan, facts, present)
            self._commit(tx, facts, accepted)
            sentence = f"Pipeline {self._pipeline_id} was restored to checkpoint {facts.record.checkpoint_id}."
            entry.done(tx, facts.restore.restored_at, sentence, facts.record.checkpoint_id)
        with self._context.transaction() as tx:
            outstanding = find_outstanding(tx)
        self._delivery.deliver(outstanding)
        return plan

    def _prepare(self, plan: RestorePlan, target: Target) -> tuple[Branch, Participating]:
        """Prepare the participants of the sinks in the commit, and return them with the branch after the restore."""
        with self._context.transaction() as tx:
            facts = self._facts(tx, target)
        self._require_as_planned(plan, facts, facts.present)
        checkpoint_id = facts.record.checkpoint_id
        subtasks = self._context.store.subtasks(self._pipeline_id, checkpoint_id)
        try:
            return facts.present, self._participants.prepare_rewind(checkpoint_id, facts.present, subtasks)
        except (SinkError, StateIntegrityError, StorageError):
            with self._context.transaction() as tx:  # its files may be gone, if it is no longer retained
                self._require_as_planned(plan, self._facts(tx, target), facts.present)
            raise

    def _require_as_planned(self, plan: RestorePlan, facts: RestoreFacts, present: Branch) -> None:
        ends = plan.checkpoint.checkpoint_id, plan.previous and plan.previous.checkpoint_id
        if _ends(facts) != ends or facts.present != present:
            raise RestoreRefusedError(
                f"Pipeline {self._pipeline_id} was not restored: since the plan was made, its latest completed "
                f"checkpoint has changed to {facts.previous and facts.previous.checkpoint_id}. Nothing was changed. "
                f"Check the plan again, and stop the pipeline with `tidegate suspend {self._pipeline_id}` first if "
                "checkpoints follow each other quickly."
            )

    def _commit(self, tx: StoreTransaction, facts: RestoreFacts, accepted: Accepted) -> None:
        """Commit the restore in one transaction. A running region loses its lease, and its checkpoint is aborted."""
        restore = replace(facts.restore, allows_non_restored_state=accepted.non_restored_state)
        now = restore.restored_at
        message = f"The pipeline was restored to checkpoint {restore.checkpoint_id}."
        abort_all(tx, FailureReason.COORDINATOR_SUSPEND, now, message)
        tx.end_region(tx.region().attempt, now)
        tx.begin_restore(restore, facts.present, message, find_forgiven(tx))
        tx.end_commit(tx.committer().attempt)  # otherwise an attempt at changing sinks would continue after the restore
        snapshots = {id_: known.snapshot for id_, known in tx.subtasks(restore.checkpoint_id).items()}
        compactions = tx.compactions()
        if obsolete := [*choose_obsolete(snapshots, compactions), *choose_newer(snapshots, compactions)]:
            tx.remove_compactions(sorted({compaction.handle.path for compaction in obsolete}))
        tx.record_restore(restore.checkpoint_id, now)


def _ends(facts: RestoreFacts) -> tuple[int, int | None]:
    """Return the checkpoints that the restore leads to and starts from."""
    return facts.record.checkpoint_id, None if facts.previous is None else facts.previous.checkpoint_id


def _wanted(target: ToCheckpoint | Undo, latest: CheckpointRecord | None) -> int | None:
    assert isinstance(target, ToCheckpoint)
    if target.checkpoint_id is not None:
        return target.checkpoint_id
    return None if latest is None else latest.checkpoint_id
