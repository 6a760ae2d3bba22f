"""Read and write the plans of restores that pages have requested."""

from datetime import UTC
from typing import Any

from sqlalchemy import Connection, RowMapping, select
from sqlalchemy.dialects.postgresql import insert

from tidegate.postgres.rows import readable
from tidegate.postgres.tables import restore_plans
from tidegate.protocol.observing.actions import Actor, ActorKind
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.protocol.recovery.restores_on_pages import PlannedRestore, RequestOfRun, accepted_document, accepted_of
from tidegate.protocol.text.storable import storable_json


def find(connection: Connection, pipeline_id: str, request_id: str) -> PlannedRestore | None:
    if not request_id.isprintable():
        return None
    wanted = (restore_plans.c.pipeline_id == pipeline_id) & (restore_plans.c.request_id == request_id)
    row = connection.execute(select(restore_plans).where(wanted)).mappings().one_or_none()
    return None if row is None else _planned(row)


def put(connection: Connection, planned: PlannedRestore) -> None:
    """Record a plan, or update it."""
    values = _values(planned)
    keys = ("pipeline_id", "request_id")
    changed = {name: value for name, value in values.items() if name not in keys}
    connection.execute(insert(restore_plans).values(**values).on_conflict_do_update(index_elements=keys, set_=changed))


def _values(planned: PlannedRestore) -> dict[str, Any]:
    requested, confirmed = planned.requested, planned.confirmed
    values = {
        "pipeline_id": planned.pipeline_id,
        "request_id": requested.request_id,
        "target": planned.target,
        "asked_at": requested.at,
        "asked_by": requested.actor.name,
        "asked_from": requested.actor.origin,
        "dag_id": requested.dag_id,
        "run_id": requested.run_id,
        "planned_at": planned.planned_at,
        "digest": planned.digest,
        "refusal": readable(planned.refusal),
    }
    if planned.document is not None:
        values["document"] = storable_json(planned.document)
    if confirmed is not None:
        values |= {
            "confirmed_id": confirmed.request_id,
            "confirmed_at": confirmed.at,
            "confirmed_by": confirmed.actor.name,
            "confirmed_from": confirmed.actor.origin,
            "confirmed_dag": confirmed.dag_id,
            "confirmed_run": confirmed.run_id,
            "accepted": accepted_document(planned.accepted),
        }
    return values


def _planned(row: RowMapping) -> PlannedRestore:
    requested = RequestOfRun(
        row["request_id"], _user(row["asked_by"], row["asked_from"]), row["asked_at"].astimezone(UTC), row["dag_id"],
        row["run_id"],
    )  # fmt: skip
    confirmed = None
    if row["confirmed_id"] is not None:
        confirmed = RequestOfRun(
            row["confirmed_id"], _user(row["confirmed_by"], row["confirmed_from"]),
            row["confirmed_at"].astimezone(UTC), row["confirmed_dag"], row["confirmed_run"],
        )  # fmt: skip
    return PlannedRestore(
        row["pipeline_id"],
        row["target"],
        requested,
        None if row["planned_at"] is None else row["planned_at"].astimezone(UTC),
        row["document"],
        row["digest"],
        row["refusal"],
        confirmed,
        Accepted() if row["accepted"] is None else accepted_of(row["accepted"]),
    )


def _user(name: str, origin: str) -> Actor:
    """Return the user of a plan. Pages that can start DAG runs are Airflow's."""
    return Actor(ActorKind.AIRFLOW_USER, name, origin)
