"""The page of one restore: its plan, the parts that must be accepted, and its outcome."""

from uuid import UUID

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from tidegate.protocol.observing.actions import AnswerStatus, AuditRecord
from tidegate.protocol.recovery.restores_on_pages import PlannedRestore, RequestOfRun
from tidegate.ui.asking import ReadingsDep
from tidegate.ui.auth import RightsDep
from tidegate.ui.dag_runs import DagRunsDep, StartableDep
from tidegate.ui.restore_offers import offers_of_plan
from tidegate.ui.shell import page
from tidegate.ui.wording import Word, answer

routes = APIRouter()


@routes.get("/pipelines/{pipeline}/restore-plans/{plan}")
def restore_plan(
    request: Request, readings: ReadingsDep, rights: RightsDep, startable: StartableDep, runs: DagRunsDep,
    pipeline: str, plan: UUID,
) -> HTMLResponse:  # fmt: skip
    planned = readings.planned_restore(pipeline, str(plan))
    if planned is None:
        raise HTTPException(404, "This plan was not requested.")
    confirmed = planned.confirmed
    outcome = None if confirmed is None else readings.audited(pipeline, confirmed.request_id)
    works = _working(planned, outcome)
    return page(
        request, "restore_plan.html", pipeline=pipeline, planned=planned, answer=outcome,
        state=_state(planned, outcome), works=works, rights=rights,
        run_state=None if works is None else runs.state(works.dag_id, works.run_id),
        anew=_anew(readings, planned, outcome), offers=offers_of_plan(planned, outcome, startable),
    )  # fmt: skip


def _working(planned: PlannedRestore, outcome: AuditRecord | None) -> RequestOfRun | None:
    """Return the request whose DAG run is working now."""
    if planned.planned_at is None:
        return planned.requested
    return planned.confirmed if outcome is None else None


def _state(planned: PlannedRestore, outcome: AuditRecord | None) -> Word:
    if outcome is not None:
        return answer(outcome.answer.status)
    if planned.confirmed is not None:
        return Word("being restored", "busy")
    if planned.refusal is not None:
        return answer(AnswerStatus.REFUSED)
    return Word("being planned", "busy") if planned.planned_at is None else Word("to be confirmed", "warn")


def _anew(readings: ReadingsDep, planned: PlannedRestore, outcome: AuditRecord | None) -> str | None:
    """Return the current plan, if it has changed since it was shown."""
    if outcome is None or outcome.answer.status is AnswerStatus.DONE or planned.confirmed is None:
        return None
    found = readings.planned_restore(planned.pipeline_id, planned.confirmed.request_id)
    return None if found is None else found.request_id
