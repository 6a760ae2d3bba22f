"""Admit requests for checkpoints: start each, queue it, or drop it (protocol.md sections 2, 3 and 4).

The requester repeats the request until it has started or was dropped. No process calls back. The queue is in the
store, and every repetition works through it as far as possible.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.observing.audit import AuditEntry
from tidegate.coordination.steps.checkpoint_failures import CheckpointFailureManager
from tidegate.coordination.steps.identity import Identification
from tidegate.coordination.steps.lookup import restore_latest
from tidegate.coordination.steps.notify import Delivery
from tidegate.coordination.steps.outstanding import Outstanding, find_outstanding
from tidegate.coordination.steps.pipeline_status import abort_all, end_if_over
from tidegate.ports import Prefetch, StoreTransaction
from tidegate.protocol.continuous.overlap import concurrency, is_forced
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRequest
from tidegate.protocol.facts.savepoints import Label, require_free, require_legal_label
from tidegate.protocol.observing.actions import answer_to_request
from tidegate.protocol.steps.admission import (
    Drop,
    DropUntil,
    Start,
    Wait,
    choose_abandoned,
    choose_ahead,
    choose_forgotten,
    choose_request,
    choose_waiting,
    decide_place,
    must_clean_first,
    precedence_message,
    takes_turn,
)
from tidegate.protocol.steps.finished import decide_trigger, plan_checkpoint
from tidegate.protocol.steps.stopping import require_legal, stopping_message
from tidegate.protocol.steps.trigger import (
    Dropped,
    DroppedUntil,
    Queued,
    Triggered,
    TriggerOutcome,
    decide_repeated,
    decide_standing,
    pending_checkpoint,
)


class Triggering:
    """Trigger the checkpoint of a request, once unfinished notifications are delivered and overdue
    checkpoints expired."""

    def __init__(
        self,
        context: DefinedContext,
        identification: Identification,
        failures: CheckpointFailureManager,
        delivery: Delivery,
        clean: Callable[[], None],
    ) -> None:
        self._context = context
        self._identification = identification
        self._requests = CheckpointRequests(context, identification)
        self._failures = failures
        self._delivery = delivery
        self._clean = clean

    def trigger(self, request: CheckpointRequest, wait: bool, entry: AuditEntry, dag_id: str | None) -> TriggerOutcome:
        """See `CheckpointCoordinator.trigger`."""
        require_legal(request.request_id, request.kind, request.drain)
        require_legal_label(request.kind, Label(request.name, request.note))
        cleaned, checked = False, not self._identification.has_checked
        if checked:
            self._identification.check_to_begin()
        while True:
            with self._context.transaction(Prefetch(request.request_id)) as tx:
                self._identification.require(tx)
                checked = checked or self._identification.has_found(tx.latest_completed())
                if checked:
                    now = (
                        self._context.clock.now()
                    )  # read under the lock: another checkpoint may have completed meanwhile
                    if dag_id is not None:
                        tx.record_dag(dag_id, now)
                    first = self._find_first(tx, request, now, cleaned)
                    if not first:
                        outcome = self._requests.admit(tx, replace(request, asked_at=now, seen_at=now), wait)
                        entry.noted(tx, now, answer_to_request(self._context.pipeline_id, outcome))
                        return outcome
            if not checked:  # another process has completed a checkpoint since this one checked
                self._identification.check_to_begin()
                checked = True
                continue
            self._delivery.deliver(first.outstanding)
            if first.must_clean:
                self._clean()
                cleaned = True

    def _find_first(self, tx: StoreTransaction, request: CheckpointRequest, now: datetime, cleaned: bool) -> "_First":
        """Return the work that must be done first. Overdue checkpoints are expired at once."""
        self._failures.correct_deadlines(tx, tx.in_progress(), now)
        outstanding, overdue = find_outstanding(tx), choose_abandoned(tx.in_progress(), now)
        if self._requests.starts_concurrently(tx, outstanding, request, now):
            outstanding = Outstanding((), ())
        # Files that cannot be deleted now block nothing. As in Flink, the failure is only logged.
        at_once = concurrency(tx.region(), self._context.config.max_concurrent, now)
        must_clean = not cleaned and must_clean_first(tx.cleaning(), at_once)
        for record in overdue:
            self._failures.expire(tx, record)
        return _First(outstanding, must_clean, bool(overdue))


@dataclass(frozen=True, slots=True)
class _First:
    """The work that precedes a request."""

    outstanding: Outstanding
    must_clean: bool
    has_expired: bool

    def __bool__(self) -> bool:
        return bool(self.outstanding) or self.must_clean or self.has_expired


class CheckpointRequests:
    """Decide about the requests of one pipeline. Every method runs within a transaction."""

    def __init__(self, context: DefinedContext, identification: Identification) -> None:
        self._context = context
        self._identification = identification

    def admit(self, tx: StoreTransaction, request: CheckpointRequest, wait: bool) -> TriggerOutcome:
        """Return the outcome of a request now. Without `wait`, a request that cannot start is dropped and leaves no
        trace.

        Raises `PipelineFailedError`.
        """
        end_if_over(tx, request.seen_at)
        request = self._as_is_now(tx, request, request.seen_at)
        requests = self._remembered(tx, request.seen_at)
        known = requests.get(request.request_id)
        request = request if known is None else replace(request, asked_at=known.asked_at)
        outcome: TriggerOutcome = (
            decide_repeated(tx.latest_by_request(request.request_id))
            or _dropped_meanwhile(known)
            or decide_standing(tx.pipeline(), request.periodic)
            or (
                self._stop(tx, request)
                if request.kind is CheckpointKind.SYNC_SAVEPOINT
                else self._join(tx, requests, request)
            )
        )
        if isinstance(outcome, Queued) and wait:
            # The first request may have come from a machine whose clock is ahead. Its place in the queue stays.
            seen_at = max(request.seen_at, request.asked_at)
            if known is not None and replace(known, seen_at=request.seen_at) == request:
                tx.touch_request(request.request_id, seen_at)
            else:
                tx.put_request(replace(request, seen_at=seen_at))
            return outcome
        if known is not None:
            tx.remove_requests([request.request_id])
        if isinstance(outcome, Queued):
            return Dropped(FailureReason.TOO_MANY_CHECKPOINT_REQUESTS, outcome.message)
        return outcome

    def _remembered(self, tx: StoreTransaction, now: datetime) -> dict[str, CheckpointRequest]:
        requests = {known.request_id: known for known in tx.requests()}
        for ahead in choose_ahead(list(requests.values()), now):
            tx.put_request(ahead)
            requests[ahead.request_id] = ahead
        if outdated := choose_forgotten(list(requests.values()), tx.region(), now):
            tx.remove_requests([request.request_id for request in outdated])
        return {
            known.request_id: self._as_is_now(tx, known, now) for known in requests.values() if known not in outdated
        }

    def _as_is_now(self, tx: StoreTransaction, request: CheckpointRequest, now: datetime) -> CheckpointRequest:
        """Return the request as the pipeline runs now. A request made to a continuous run may be answered by a
        scheduled one, and vice versa."""
        return replace(request, forced=is_forced(request, tx.region(), self._context.config.unaligned, now))

    def starts_concurrently(
        self, tx: StoreTransaction, outstanding: Outstanding, request: CheckpointRequest, now: datetime
    ) -> bool:
        """Whether a request need not wait until sinks have committed. A region keeps running meanwhile, and commits in
        another thread."""
        if outstanding.restore is not None or not outstanding.unnotified:
            return False
        at_once = concurrency(tx.region(), self._context.config.max_concurrent, now)
        is_free = len(tx.in_progress()) + len(outstanding.unnotified) < at_once
        return is_free or is_forced(request, tx.region(), self._context.config.unaligned, now)

    def _join(
        self, tx: StoreTransaction, requests: dict[str, CheckpointRequest], request: CheckpointRequest
    ) -> TriggerOutcome:
        overflow = decide_place(choose_waiting(list(requests.values()), request.seen_at), request)
        if overflow is not None and overflow.request.request_id == request.request_id:
            return Dropped(overflow.reason, overflow.message)
        if overflow is not None:
            requests[overflow.request.request_id] = self._drop(tx, overflow)
        requests[request.request_id] = request
        return self._choose(tx, requests, request)

    def _choose(
        self, tx: StoreTransaction, requests: dict[str, CheckpointRequest], request: CheckpointRequest
    ) -> TriggerOutcome:
        in_progress, latest_completed = tx.in_progress(), tx.latest_completed()
        at_once = concurrency(tx.region(), self._context.config.max_concurrent, request.seen_at)
        while True:
            waiting = choose_waiting(list(requests.values()), request.seen_at)
            decision = choose_request(
                waiting,
                in_progress=in_progress,
                latest_completed=latest_completed,
                max_concurrent=at_once,
                min_pause=self._context.config.min_pause,
                now=request.seen_at,
                committing=tx.unnotified(),
            )
            match decision:
                case DropUntil() if decision.request == request:
                    return DroppedUntil(decision.reason, decision.message, decision.again_in)
                case Drop() if decision.request == request:
                    return Dropped(decision.reason, decision.message)
                case Drop():
                    requests[decision.request.request_id] = self._drop(tx, decision)
                case Start() if takes_turn(request, waiting):
                    return self._start(tx, request)
                case Start():
                    return Queued(precedence_message(decision.request))
                case Wait():
                    return Queued(decision.message)

    def _drop(self, tx: StoreTransaction, drop: Drop) -> CheckpointRequest:
        dropped = replace(drop.request, dropped=drop.reason, dropped_message=drop.message)
        tx.put_request(dropped)
        return dropped

    def _stop(self, tx: StoreTransaction, request: CheckpointRequest) -> Triggered | Dropped:
        """Begin the savepoint of a stop, and abort all others: nothing may complete after it (section 18)."""
        outcome = self._start(tx, request)
        if isinstance(outcome, Triggered):
            record = tx.checkpoint(outcome.checkpoint_id)
            assert record is not None
            abort_all(tx, FailureReason.COORDINATOR_SUSPEND, request.seen_at, last=record)
            tx.move_pipeline(PipelineStatus.STOPPING, request.seen_at, stopping_message(record))
        return outcome

    def _start(self, tx: StoreTransaction, request: CheckpointRequest) -> Triggered | Dropped:
        """Record the checkpoint. Subtasks that finished earlier count as acknowledged from the start (section 13)."""
        require_free(request.name, None if request.name is None else tx.named(request.name))
        now, latest = request.seen_at, tx.latest_completed()
        some_finished = latest is not None and latest.num_finished > 0
        restored = restore_latest(tx, self._context, {})[1] if some_finished else {}
        plan = plan_checkpoint(self._context.graph.subtasks, restored, self._context.graph.showing_state)
        if (dropped := decide_trigger(latest, plan, self._context.config.checkpoints_after_tasks_finish)) is not None:
            return dropped
        if tx.pipeline().status is PipelineStatus.CREATED:
            tx.move_pipeline(PipelineStatus.RUNNING, now)
        self._identification.record(tx, now)
        record = pending_checkpoint(
            pipeline_id=self._context.graph.pipeline.name,
            checkpoint_id=tx.next_checkpoint_id(),
            request_id=request.request_id,
            periodic=request.periodic,
            kind=request.kind,
            drain=request.drain,
            operators=self._context.graph.plan,
            timeout=self._context.config.timeout,
            now=now,
            label=Label(request.name, request.note),
        )
        tx.add_pending(record, self._context.graph.subtasks)
        if plan.finished:
            tx.record_acknowledgements(record.checkpoint_id, plan.acknowledgements(), now)
        return Triggered(record.checkpoint_id)


def _dropped_meanwhile(known: CheckpointRequest | None) -> Dropped | None:
    """Return the answer to a request that was dropped since its last repetition."""
    if known is None or known.dropped is None:
        return None
    return Dropped(known.dropped, known.dropped_message or known.dropped.sentence)
