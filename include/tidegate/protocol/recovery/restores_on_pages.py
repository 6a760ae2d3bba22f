"""A restore that a user requests on a page: first its plan, and then the restore itself as planned.

Both are carried out by DAG runs, because the process that serves the page has no pipeline code. The record names these
DAG runs. Any other DAG run plans and restores nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tidegate.protocol.facts.errors import IllegalRequestError, RestoreRefusedError
from tidegate.protocol.observing.actions import ActionKind, Actor, UserAction
from tidegate.protocol.recovery.restore_plan import Accepted

#: A target that is no checkpoint.
UNDO = "undo"


@dataclass(frozen=True, slots=True)
class RequestOfRun:
    """A request on a page: the user, and the DAG run that carries it out."""

    request_id: str
    actor: Actor
    at: datetime
    dag_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class PlannedRestore:
    """A planned restore. `target` is a checkpoint's number or `UNDO`. Once `planned_at` is set there is either a plan,
    with the `document` that is shown and the `digest` of its content, or a `refusal`. `confirmed` is the request for
    the restore as it was shown."""

    pipeline_id: str
    target: str
    requested: RequestOfRun
    planned_at: datetime | None = None
    document: Mapping[str, Any] | None = None
    digest: str | None = None
    refusal: str | None = None
    confirmed: RequestOfRun | None = None
    accepted: Accepted = field(default_factory=Accepted)

    @property
    def request_id(self) -> str:
        return self.requested.request_id

    @property
    def what(self) -> str:
        return "the undo of the last restore" if self.target == UNDO else f"a restore to checkpoint {self.target}"


def require_legal_target(target: str) -> None:
    """Raise `IllegalRequestError` if the target is neither a checkpoint's number nor `UNDO`. Performs no I/O."""
    if target != UNDO and not (target.isascii() and target.isdecimal() and 0 < int(target[:20]) < 2**63):
        raise IllegalRequestError(
            f"{target[:50]!r} is neither the number of a checkpoint nor {UNDO}. Nothing was changed."
        )


def require_same_target(known: PlannedRestore, target: str, actor: Actor) -> None:
    """Check that an id is used for one request only. Raises `IllegalRequestError`. Performs no I/O."""
    if (known.target, known.requested.actor.name) != (target, actor.name):
        raise IllegalRequestError(
            f"The id {known.request_id} is of the plan of {known.what} for {known.requested.actor.name}. Nothing was "
            "changed. Use a new id."
        )


def require_confirmable(planned: PlannedRestore, request_id: str, accepted: Accepted, actor: Actor) -> None:
    """Check that there is a plan that no other request has confirmed. Raises `RestoreRefusedError` otherwise, and
    `IllegalRequestError` if the id was used for other answers, or by another user. Performs no I/O."""
    if planned.confirmed is not None:
        if planned.confirmed.request_id != request_id:
            raise RestoreRefusedError(
                f"Pipeline {planned.pipeline_id} was not restored: {planned.confirmed.actor.name} has confirmed this "
                f"plan already, at {planned.confirmed.at:%Y-%m-%d %H:%M:%S} UTC. Nothing was changed. Check the "
                "outcome of that restore, then make a new plan."
            )
        if (planned.accepted, planned.confirmed.actor.name) != (accepted, actor.name):
            raise IllegalRequestError(f"The id {request_id} was used with other answers. Nothing was changed.")
        return
    if planned.document is None:
        why = planned.refusal or "Its plan is not made yet."
        raise RestoreRefusedError(f"Pipeline {planned.pipeline_id} was not restored. {why} Nothing was changed.")


def require_run(request: RequestOfRun, dag_id: str, run_id: str, user: str | None) -> None:
    """Raise `IllegalRequestError` if the plan names another DAG run, or if another user started this one. Performs no
    I/O."""
    if (request.dag_id, request.run_id, request.actor.name) != (dag_id, run_id, user):
        raise IllegalRequestError(
            f"DAG run {dag_id}/{run_id}, triggered by {user or 'a user unknown to Airflow'}, was not started by the "
            f"page for request {request.request_id} of {request.actor.name}. Nothing was changed. Request it on the "
            "page again, or leave the parameter plan empty."
        )


def require_unchanged(planned: PlannedRestore, digest: str, where: str) -> None:
    """Raise `RestoreRefusedError` if the plan has changed since it was shown. Performs no I/O."""
    if planned.digest != digest:
        raise RestoreRefusedError(
            f"Pipeline {planned.pipeline_id} was not restored: since the plan was shown, it has changed. Nothing was "
            f"changed. {where} If checkpoints follow each other quickly, suspend the pipeline first."
        )


def action_of(planned: PlannedRestore, request: RequestOfRun) -> UserAction:
    """Return the restore as a user action, by the user who confirmed it. Performs no I/O."""
    kind = ActionKind.UNDO if planned.target == UNDO else ActionKind.RESTORE
    details = {
        "to": planned.target,
        "plan": planned.request_id,
        "dag_run": f"{request.dag_id}/{request.run_id}",
        **accepted_document(planned.accepted),
    }
    return UserAction(request.request_id, kind, request.actor, details)


def accepted_document(accepted: Accepted) -> dict[str, Any]:
    return {
        "skip_missing_files": accepted.skip_missing_files,
        "leave": sorted(accepted.leave),
        "allow_non_restored_state": accepted.non_restored_state,
    }


def accepted_of(document: Mapping[str, Any]) -> Accepted:
    return Accepted(
        bool(document["skip_missing_files"]),
        tuple(sorted(map(str, document["leave"]))),
        bool(document["allow_non_restored_state"]),
    )
