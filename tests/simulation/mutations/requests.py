"""Planted mistakes in who may begin a checkpoint, and when a pipeline has failed."""

from memory_transaction import MemoryTransaction

from mutations.planting import MUTATIONS, Replacement, mutation
from tidegate.coordination.steps import checkpoint_failures as failing
from tidegate.coordination.steps import pipeline_status as controls
from tidegate.coordination.steps import region_lease as region_control
from tidegate.coordination.steps import snapshot as snapshotting
from tidegate.coordination.steps import trigger as desks
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.steps import admission as admissions
from tidegate.protocol.steps import failures
from tidegate.protocol.steps.trigger import AlreadyCompleted, Resumed


@mutation("a request that is resumed gets a new checkpoint", (desks, "decide_repeated"))
def _(original):
    def decide(previous):
        answer = original(previous)
        return None if isinstance(answer, Resumed) else answer

    return decide


@mutation("a request that completed is taken once more", (desks, "decide_repeated"))
def _(original):
    def decide(previous):
        answer = original(previous)
        return None if isinstance(answer, AlreadyCompleted) else answer

    return decide


@mutation("the minimum pause is measured from a failure", (MemoryTransaction, "latest_completed"))
def _(original):
    def latest(self):
        completed, failed = original(self), self.failed_after(0)
        if completed is None or not failed or failed[-1].failed_at <= completed.completed_at:
            return completed
        return completed.moved(completed_at=failed[-1].failed_at)

    return latest


@mutation("the minimum pause is measured from the trigger", (desks, "choose_request"))
def _(original):
    def choose(waiting, *, latest_completed, **facts):
        if latest_completed is not None:
            latest_completed = latest_completed.moved(completed_at=latest_completed.triggered_at)
        return original(waiting, latest_completed=latest_completed, **facts)

    return choose


@mutation("one checkpoint more than allowed is in progress", (desks, "choose_request"))
def _(original):
    return lambda waiting, *, max_concurrent, **facts: original(waiting, max_concurrent=max_concurrent + 1, **facts)


@mutation("a savepoint has to wait behind checkpoints", (admissions, "precedence"))
def _(original):
    return lambda request: original(request)[2:]


@mutation("periodic requests come before manual ones", (admissions, "precedence"))
def _(original):
    return lambda request: (original(request)[0], not original(request)[2])


MUTATIONS["a request that nobody repeats holds up the others"] = (
    Replacement(desks, "choose_forgotten", lambda original: lambda requests, region, now: []),
    Replacement(
        desks,
        "choose_waiting",
        lambda original: (
            lambda requests, now: sorted(
                (request for request in requests if request.dropped is None), key=admissions.precedence
            )
        ),
    ),
)


@mutation("a process that died while it waited holds up those that want the same", (desks, "takes_turn"))
def _(original):
    return lambda request, waiting: request == waiting[0]


@mutation("a suspended pipeline takes checkpoints", (desks, "decide_standing"))
def _(original):
    return lambda pipeline, periodic: None


@mutation("what is in progress goes on when its pipeline is suspended", (controls, "abort_all"))
def _(original):
    return lambda tx, reason, now, why=None, last=None: None


@mutation(
    "nobody enforces the deadline",
    (desks, "choose_abandoned"),
    (snapshotting, "choose_overdue"),
    (region_control, "choose_overdue"),
)
def _(original):
    return lambda in_progress, now: []


@mutation("the id of a failed checkpoint is given again", (MemoryTransaction, "next_checkpoint_id"))
def _(original):
    def next_id(self):
        ids = [c.checkpoint_id for c in self.state.checkpoints.values() if c.status is not Status.FAILED]
        return max(ids, default=0) + 1

    return next_id


@mutation("one failure more than tolerated is tolerated", (failing, "decide_pipeline_failure"))
def _(original):
    return lambda failed, tolerable, *rest: original(failed, tolerable and tolerable + 1, *rest)


@mutation("every failure counts, whatever its reason", (failures, "_counts"))
def _(original):
    return lambda record, validation_failures_count: True


@mutation("a success does not begin the count anew", (MemoryTransaction, "failed_after"))
def _(original):
    return lambda self, checkpoint_id: original(self, 0)
