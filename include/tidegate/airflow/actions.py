"""User actions for the audit log, from DAG runs that a user has triggered. Scheduled runs are not user actions."""

from typing import TYPE_CHECKING

from airflow.sdk import Context

from tidegate.protocol.observing.actions import ActionKind, Actor, ActorKind, UserAction

if TYPE_CHECKING:
    from tidegate.coordination.coordinator import CheckpointCoordinator

#: The types of DAG runs that no user triggers by hand.
_BY_ITSELF = {"scheduled", "asset_triggered", "asset_materialization"}


def action_of(context: Context, kind: ActionKind) -> UserAction | None:
    """Return the action of the user who triggered the DAG run, with the form as it was filled in; None if no user did.

    A cleared DAG run makes the request again; a task that is retried, or runs twice, does not.
    """
    dag_run = context["dag_run"]
    if _run_type(context) in _BY_ITSELF:
        return None
    user = dag_run.triggering_user_name
    origin = f"{_run_type(context)} DAG run, triggered by {user or 'a user unknown to Airflow'}"
    return UserAction(
        _id(context), kind, Actor(ActorKind.DAG_RUN, _name(context), origin), {"conf": dag_run.conf or {}}
    )


def drains(context: Context) -> bool:
    """Whether the DAG run is to drain the pipeline. Its form does not offer that; a page requests it."""
    return bool((context["params"] or {}).get("drain", False))


def require_drain(coordinator: "CheckpointCoordinator", context: Context, request_id: str) -> None:
    """Raise an error unless a page has started the DAG run for that, for its user (`protocol.observing.draining`)."""
    run = context["dag_run"]
    cleared = bool(run.clear_number)
    coordinator.operations.require_drain(request_id, run.run_id, run.triggering_user_name, cleared)


def ended_by_hand(context: Context) -> UserAction:
    """Return the action that aborts a DAG run's request, because a user has marked the DAG run or a task of it."""
    origin = f"{_run_type(context)} DAG run, ended by hand; Airflow does not record by whom"
    actor = Actor(ActorKind.DAG_RUN, _name(context), origin)
    return UserAction(f"{_id(context)}/abort", ActionKind.ABORT, actor)


def _id(context: Context) -> str:
    dag_run = context["dag_run"]
    return f"{_name(context)}/{dag_run.run_after:%Y%m%dT%H%M%S.%f}/{dag_run.clear_number or 0}"


def _name(context: Context) -> str:
    return f"{context['dag_run'].dag_id}/{context['dag_run'].run_id}"


def _run_type(context: Context) -> str:
    run_type = context["dag_run"].run_type
    return str(getattr(run_type, "value", run_type))
