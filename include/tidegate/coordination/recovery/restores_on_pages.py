"""Restores that pages ask for: recorded before a DAG run is started for them, then planned, then confirmed.

Each step may be repeated: the first plan stays, and so does the first confirmation.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.coordination.context import PipelineContext
from tidegate.protocol.facts.names import run_id_of
from tidegate.protocol.observing.actions import Actor
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.protocol.recovery.restores_on_pages import (
    AskedOfRun,
    PlannedRestore,
    require_confirmable,
    require_legal_target,
    require_same_target,
)


class PlannedRestores:
    """Those of one pipeline."""

    def __init__(self, context: PipelineContext) -> None:
        self._context = context

    def find(self, request_id: str) -> PlannedRestore | None:
        with self._context.transaction() as tx:
            return tx.planned_restore(request_id)

    def ask(self, request_id: str, target: str, actor: Actor, dag_id: str) -> PlannedRestore:
        """Somebody wants to see the plan, which a run of this DAG is to make. Asked again it is what is known of it.

        Raises `IllegalRequestError` for a target that is none, and for an id of another request.
        """
        require_legal_target(target)
        with self._context.transaction() as tx:
            if (known := tx.planned_restore(request_id)) is not None:
                require_same_target(known, target, actor)
                return known
            asked = AskedOfRun(request_id, actor, self._context.clock.now(), dag_id, run_id_of(request_id))
            planned = PlannedRestore(self._context.pipeline_id, target, asked)
            tx.put_planned_restore(planned)
            return planned

    def store(self, request_id: str, document: Mapping[str, Any], digest: str) -> None:
        """What the DAG run has planned."""
        self._answer(request_id, document=document, digest=digest)

    def refuse(self, request_id: str, why: str) -> None:
        """There is no plan, and there will be none."""
        self._answer(request_id, refusal=why)

    def _answer(self, request_id: str, **answer: Any) -> None:
        with self._context.transaction() as tx:
            planned = tx.planned_restore(request_id)
            if planned is not None and planned.planned_at is None:
                tx.put_planned_restore(replace(planned, planned_at=self._context.clock.now(), **answer))

    def confirm(
        self, plan_id: str, request_id: str, accepted: Accepted, actor: Actor, dag_id: str
    ) -> PlannedRestore | None:
        """Somebody has seen the plan, and wants it carried out by a run of this DAG. None if there is no such plan.

        Raises `RestoreRefusedError` if it cannot be, because it is not made or another one has confirmed it, and
        `IllegalRequestError` for an id that was used with other answers.
        """
        with self._context.transaction() as tx:
            planned = tx.planned_restore(plan_id)
            if planned is None:
                return None
            require_confirmable(planned, request_id, accepted, actor)
            if planned.confirmed is None:
                asked = AskedOfRun(request_id, actor, self._context.clock.now(), dag_id, run_id_of(request_id))
                planned = replace(planned, confirmed=asked, accepted=accepted)
                tx.put_planned_restore(planned)
            return planned

    def show_anew(self, planned: PlannedRestore, document: Mapping[str, Any], digest: str) -> None:
        """The plan has changed since it was confirmed: what it is now, by the id of the confirmation, for the same
        person to look at."""
        confirmed = planned.confirmed
        assert confirmed is not None  # only what was confirmed is compared
        self.ask(confirmed.request_id, planned.target, confirmed.actor, confirmed.dag_id)
        self.store(confirmed.request_id, document, digest)
