"""User actions on a pipeline, one method each. They need no definition of the pipeline.

A page calls them from a process that has no pipeline code:

    operations = assembly.open_operations("flights")
    actor = Actor(ActorKind.AIRFLOW_USER, user.name, request.client.host)
    answer = operations.suspend(request_id, actor)        # the page has made the id, a UUID, before the request

The answer reports what happened, or the reason of a refusal, which is not an error. A request with the same id is
not carried out again: it returns the first answer, so a page that has lost the answer repeats the request. Only
`StoreUnavailableError` and `UnknownOutcomeError` are raised. The outcome is then unknown, and the page repeats the
request later. Every user action and its answer are in `store.audit`.

Work that needs the definition is left to the next process that has it: files are deleted from the queue of
deletions, and sinks discard their staged rows. A listener, which is part of the definition, is not notified of an
abort. A request that cannot wait for that process is refused with the reason.
"""

import json
from collections.abc import Callable
from typing import Any

from tidegate.coordination.cleaning.deletion_queue import QueuedDeletions
from tidegate.coordination.context import PipelineContext
from tidegate.coordination.observing.audit import AuditEntry, Auditing
from tidegate.coordination.recovery.restores_on_pages import PlannedRestores
from tidegate.coordination.recovery.savepoints import Savepoints
from tidegate.coordination.steps.checkpoint_failures import fail_checkpoint
from tidegate.coordination.steps.hold import Holds
from tidegate.coordination.steps.lookup import find_checkpoint
from tidegate.coordination.steps.pipeline_status import PipelineControl
from tidegate.coordination.steps.region_lease import find_presence
from tidegate.pipeline.config import CheckpointRetention
from tidegate.ports import StoreTransaction
from tidegate.protocol.continuous.regions import LiveRegion
from tidegate.protocol.facts.branches import find_unfinished
from tidegate.protocol.facts.errors import (
    CheckpointCompletedError,
    MetadataError,
    PipelineStatusError,
)
from tidegate.protocol.facts.lifecycle import COMMITTED, Status
from tidegate.protocol.facts.names import asked_by_run, handed_over
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord, CheckpointRequest
from tidegate.protocol.facts.savepoints import UNLABELLED, Label, require_free, require_legal_label
from tidegate.protocol.observing.actions import ActionAnswer, ActionKind, Actor, UserAction, kind_of_request
from tidegate.protocol.observing.draining import require_asked_on_page
from tidegate.protocol.steps.admission import choose_waiting, decide_place
from tidegate.protocol.steps.notify import choose_unnotified
from tidegate.protocol.steps.stopping import require_legal
from tidegate.protocol.steps.trigger import decide_standing

#: As when a checkpoint scheduler is stopped and started again: it does not count as a failure, and a pipeline that was
#: to stop with this savepoint keeps running.
ABORT_REASON = FailureReason.COORDINATOR_SUSPEND
_ABORTED = (
    "It was aborted by hand. Committed data and the latest completed checkpoint are untouched; the next checkpoint "
    "takes the same data."
)


class PipelineOperations:
    """The user actions on one pipeline. The caller makes `request_id`, and names the user as `actor`."""

    def __init__(self, context: PipelineContext) -> None:
        self._context = context
        self.pipeline_id = context.pipeline_id
        self.auditing = Auditing(context)
        self.control = PipelineControl(context)
        self.savepoints = Savepoints(context)
        self.holds = Holds(context)
        self.planned_restores = PlannedRestores(context)
        self._deletions = QueuedDeletions(context, dict)

    # -- the pipeline as a whole

    def suspend(self, request_id: str, actor: Actor) -> ActionAnswer:
        """Start no more checkpoints until `resume`. Checkpoints in progress are aborted."""
        return self.auditing.carry_out(UserAction(request_id, ActionKind.SUSPEND, actor), self.control.suspend)

    def resume(self, request_id: str, actor: Actor) -> ActionAnswer:
        """Start checkpoints again, from the latest completed one."""
        return self.auditing.carry_out(UserAction(request_id, ActionKind.RESUME, actor), self.control.resume)

    def cancel(self, request_id: str, actor: Actor) -> ActionAnswer:
        """End the pipeline for good. The options of its latest completed checkpoint decide whether its state is kept.
        Refused while sinks have completed checkpoints to commit, because that needs the definition."""

        def act(entry: AuditEntry) -> None:
            self.control.cancel(self._retention(), entry, self._require_delivered)

        return self.auditing.carry_out(UserAction(request_id, ActionKind.CANCEL, actor), act)

    # -- checkpoints and savepoints

    def abort(self, request_id: str, actor: Actor, checkpoint_id: int | None = None) -> ActionAnswer:
        """Abort this checkpoint, by default the newest in progress. The pipeline keeps running. A completed checkpoint
        is refused."""
        action = UserAction(request_id, ActionKind.ABORT, actor, _given(checkpoint=checkpoint_id))
        return self.auditing.carry_out(action, lambda entry: self._abort(checkpoint_id, entry))

    def approve(
        self,
        request_id: str,
        actor: Actor,
        checkpoint_id: int | None = None,
        comment: str | None = None,
        by: str | None = None,
    ) -> ActionAnswer:
        """Complete this checkpoint, by default the held one, although a verdict failed. `by` is the user who decided,
        by default the actor."""
        action = UserAction(request_id, ActionKind.APPROVE, actor, _decision(checkpoint_id, comment, by))
        name = actor.name if by is None else by
        return self.auditing.carry_out(action, lambda entry: self.holds.approve(checkpoint_id, name, comment, entry))

    def reject(
        self,
        request_id: str,
        actor: Actor,
        checkpoint_id: int | None = None,
        comment: str | None = None,
        by: str | None = None,
    ) -> ActionAnswer:
        """Abort this checkpoint, by default the held one. The arguments are those of `approve`."""
        action = UserAction(request_id, ActionKind.REJECT, actor, _decision(checkpoint_id, comment, by))
        name = actor.name if by is None else by
        return self.auditing.carry_out(action, lambda entry: self.holds.reject(checkpoint_id, name, comment, entry))

    def request(
        self,
        request_id: str,
        actor: Actor,
        kind: CheckpointKind = CheckpointKind.CHECKPOINT,
        label: Label = UNLABELLED,
        drain: bool = False,
        dag_id: str | None = None,
    ) -> ActionAnswer:
        """Request a checkpoint or savepoint from the continuous region, or a stop with one. The history has it under
        `names.handed_over(request_id)`. Refused if no region runs: the checkpoint of a scheduled pipeline is a DAG
        run. `dag_id` is the DAG that was chosen for it."""
        details = _given(name=label.name, note=label.note, dag=dag_id)
        action = UserAction(request_id, kind_of_request(kind, drain), actor, details)
        return self.auditing.carry_out(action, lambda entry: self._request(request_id, kind, label, drain, entry))

    def has_live_region(self) -> bool:
        with self._context.transaction() as tx:
            return isinstance(find_presence(tx, self._context.clock.now()), LiveRegion)

    def request_of_run(
        self,
        request_id: str,
        actor: Actor,
        start: Callable[[], str],
        kind: CheckpointKind = CheckpointKind.CHECKPOINT,
        label: Label = UNLABELLED,
        drain: bool = False,
        dag_id: str | None = None,
    ) -> ActionAnswer:
        """Request a checkpoint or savepoint of a scheduled pipeline. `start` starts one DAG run, however often it is
        called, and returns a sentence about it. It raises `ActionRefusedError` if it cannot. The audit lists the
        actions of the DAG run separately."""
        details = _given(name=label.name, note=label.note, dag=dag_id)
        action = UserAction(request_id, kind_of_request(kind, drain), actor, details)
        if (first_answer := self.auditing.answer_to(action)) is not None:
            return first_answer

        def act(entry: AuditEntry) -> None:
            require_legal_label(kind, label)
            started = start()
            with self._context.transaction() as tx:
                entry.done(tx, self._context.clock.now(), started)

        return self.auditing.carry_out(action, act)

    def require_drain(self, request: str, run_id: str, user: str | None, cleared: bool) -> None:
        """Require that a DAG run, which makes this request and was triggered by this user, may drain the pipeline. A
        request that it has made before may continue. A DAG run that was cleared, by any user, makes no new request.

        Raises `IllegalRequestError` if it may not, and `CheckpointError` if that is not known yet.
        """
        action_id = asked_by_run(run_id)
        with self._context.transaction() as tx:
            before = tx.latest_by_request(request)
            audited = None if action_id is None else tx.audited(action_id)
        if before is None or before.status is Status.FAILED or before.abandoned_by is not None:
            require_asked_on_page(audited, self.pipeline_id, run_id, user, cleared)

    def rename(self, request_id: str, actor: Actor, savepoint: str, label: Label) -> ActionAnswer:
        """Change the name or the note of a savepoint, or both. It is given by its name or number."""
        details = _given(savepoint=savepoint, name=label.name, note=label.note)
        action = UserAction(request_id, ActionKind.RENAME, actor, details)
        return self.auditing.carry_out(action, lambda entry: self.savepoints.relabel(savepoint, label, entry))

    def dispose(self, request_id: str, actor: Actor, savepoint: str) -> ActionAnswer:
        """Dispose of a savepoint. Its files are queued for deletion."""
        action = UserAction(request_id, ActionKind.DISPOSE, actor, _given(savepoint=savepoint))
        return self.auditing.carry_out(action, lambda entry: self.savepoints.dispose(savepoint, entry))

    def delete_queued(self) -> None:
        """Delete the queued files, except those that sinks have staged. The time grows with the number of files: do not
        call it while a user waits."""
        self._deletions.delete_queued()

    # -- inside

    def _abort(self, checkpoint_id: int | None, entry: AuditEntry) -> None:
        with self._context.transaction() as tx:
            now, in_progress = self._context.clock.now(), tx.in_progress()
            if checkpoint_id is None and not in_progress:
                entry.done(tx, now, f"Pipeline {self.pipeline_id} has no checkpoint in progress. Nothing was changed.")
                return
            aborted = in_progress[-1].checkpoint_id if checkpoint_id is None else checkpoint_id
            record = find_checkpoint(tx, self.pipeline_id, aborted)
            if record.status in COMMITTED:
                raise self._completed(record)
            if fail_checkpoint(tx, aborted, ABORT_REASON, _ABORTED, now):
                record = find_checkpoint(tx, self.pipeline_id, aborted)
            assert record.failure_reason is not None
            message = f"Checkpoint {aborted} of pipeline {self.pipeline_id} is FAILED: {record.failure_reason.name}."
            entry.done(tx, now, f"{message} {record.failure_message}", aborted)

    def _completed(self, record: CheckpointRecord) -> CheckpointCompletedError:
        return CheckpointCompletedError(
            f"Checkpoint {record.checkpoint_id} of pipeline {self.pipeline_id} completed at "
            f"{record.completed_at:%Y-%m-%d %H:%M:%S} UTC and can no longer be aborted: its rows are visible, or "
            f"become visible with the next checkpoint. Nothing was changed. `tidegate restore {self.pipeline_id}` goes "
            "back to an earlier checkpoint."
        )

    def _request(self, request_id: str, kind: CheckpointKind, label: Label, drain: bool, entry: AuditEntry) -> None:
        request_key = handed_over(request_id)
        require_legal(request_key, kind, drain)
        require_legal_label(kind, label)
        with self._context.transaction() as tx:
            now = self._context.clock.now()
            request = CheckpointRequest(
                request_key, kind, False, False, now, now, drain=drain, name=label.name, note=label.note
            )
            self._require_taken(tx, request)
            tx.put_request(request)
            entry.done(tx, now, f"A {kind} of pipeline {self.pipeline_id} is requested of its continuous region.")

    def _require_taken(self, tx: StoreTransaction, request: CheckpointRequest) -> None:
        """Require that a region can take the request. Raises `PipelineStatusError` and `IllegalRequestError`."""
        if not isinstance(find_presence(tx, request.seen_at), LiveRegion):
            raise PipelineStatusError(
                f"Pipeline {self.pipeline_id} has no continuous region running to take the request. Nothing was "
                "triggered. Start a DAG run of the pipeline, or run `tidegate checkpoint` where its code is."
            )
        require_free(request.name, None if request.name is None else tx.named(request.name))
        standing = decide_standing(tx.pipeline(), periodic=False)
        refused = standing or decide_place(choose_waiting(tx.requests(), request.seen_at), request)
        if refused is not None:
            raise PipelineStatusError(refused.message)

    def _retention(self) -> CheckpointRetention:
        """Read the retention from the latest checkpoint's metadata. If it cannot be read, nothing is cancelled. Raises
        `MetadataError`, `StorageError`, `StateIntegrityError`."""
        with self._context.transaction() as tx:
            latest = tx.latest_completed()
        if latest is None or latest.metadata_path is None:
            return CheckpointRetention.RETAIN_ON_CANCELLATION
        content = self._context.storage.read(latest.metadata_path)
        try:
            return CheckpointRetention(json.loads(content)["options"]["retention"])
        except (ValueError, KeyError, TypeError) as error:
            raise MetadataError(
                f"{latest.metadata_path} does not record whether the state of pipeline {self.pipeline_id} is kept when "
                "it is cancelled. Nothing was changed. Run `tidegate cancel` where its code is."
            ) from error

    def _require_delivered(self, tx: StoreTransaction) -> None:
        undelivered = choose_unnotified(tx.retained(), None)
        if undelivered or find_unfinished(tx.restores()) is not None:
            unfinished = f"checkpoint {undelivered[0].checkpoint_id}" if undelivered else "a restore"
            raise PipelineStatusError(
                f"Pipeline {self.pipeline_id} was not cancelled: its sinks have not finished {unfinished}, which takes "
                "its code. Nothing was changed. Clear the task notify, or run `tidegate cancel` where its code is."
            )


def _given(**details: Any) -> dict[str, Any]:
    return {name: value for name, value in details.items() if value is not None}


def _decision(checkpoint_id: int | None, comment: str | None, by: str | None) -> dict[str, Any]:
    return _given(checkpoint=checkpoint_id, comment=comment, by=by)
