"""Restores that pages request. A request is recorded before its DAG run is started. It is then planned, then confirmed.

Each step may be repeated. The first plan stays, and so does the first confirmation.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.coordination.context import PipelineContext
from tidegate.protocol.facts.names import run_id_of
from tidegate.protocol.observing.actions import Actor
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.protocol.recovery.restores_on_pages import (
    PlannedRestore,
    RequestOfRun,
    require_confirmable,
    require_legal_target,
    require_same_target,
)


class PlannedRestores:
    """The planned restores of one pipeline."""

    def __init__(self, context: PipelineContext) -> None:
        self._context = context

    def find(self, request_id: str) -> PlannedRestore | None:
        with self._context.transaction() as tx:
            return tx.planned_restore(request_id)

    def ask(self, request_id: str, target: str, actor: Actor, dag_id: str) -> PlannedRestore:
        """Record a request for a plan, which a run of this DAG will make. If repeated, return the recorded request.

        Raises `IllegalRequestError` for an illegal target, and for an id of another request.
        """
        require_legal_target(target)
        with self._context.transaction() as tx:
            if (recorded := tx.planned_restore(request_id)) is not None:
                require_same_target(recorded, target, actor)
                return recorded
            request = RequestOfRun(request_id, actor, self._context.clock.now(), dag_id, run_id_of(request_id))
            planned = PlannedRestore(self._context.pipeline_id, target, request)
            tx.put_planned_restore(planned)
            return planned

    def store(self, request_id: str, document: Mapping[str, Any], digest: str) -> None:
        """Record the plan of the DAG run."""
        self._answer(request_id, document=document, digest=digest)

    def refuse(self, request_id: str, reason: str) -> None:
        """Record that there is no plan, and why."""
        self._answer(request_id, refusal=reason)

    def _answer(self, request_id: str, **answer: Any) -> None:
        with self._context.transaction() as tx:
            planned = tx.planned_restore(request_id)
            if planned is not None and planned.planned_at is None:
                tx.put_planned_restore(replace(planned, planned_at=self._context.clock.now(), **answer))

    def confirm(
        self, plan_id: str, request_id: str, accepted: Accepted, actor: Actor, dag_id: str
    ) -> PlannedRestore | None:
        """Record that a user has confirmed the plan, to be carried out by a run of this DAG. Return None if there is no
        such plan.

        Raises `RestoreRefusedError` if it cannot be carried out, because it is not made or another request has
        confirmed it, and `IllegalRequestError` for an id that was used with other answers.
        """
        with self._context.transaction() as tx:
            planned = tx.planned_restore(plan_id)
            if planned is None:
                return None
            require_confirmable(planned, request_id, accepted, actor)
            if planned.confirmed is None:
                request = RequestOfRun(request_id, actor, self._context.clock.now(), dag_id, run_id_of(request_id))
                planned = replace(planned, confirmed=request, accepted=accepted)
                tx.put_planned_restore(planned)
            return planned

    def show_anew(self, planned: PlannedRestore, document: Mapping[str, Any], digest: str) -> None:
        """Record the current plan, if it has changed since the confirmation. It is stored under the id of the
        confirmation, for the same user to check."""
        confirmed = planned.confirmed
        assert confirmed is not None  # only confirmed plans are compared
        self.ask(confirmed.request_id, planned.target, confirmed.actor, confirmed.dag_id)
        self.store(confirmed.request_id, document, digest)
