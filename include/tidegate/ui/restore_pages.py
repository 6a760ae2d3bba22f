"""The page of one restore: its plan while it is made, what must be accepted of it, and what became of it."""

from uuid import UUID

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from tidegate.protocol.observing.actions import AnswerStatus, AuditRecord
from tidegate.protocol.recovery.restores_on_pages import AskedOfRun, PlannedRestore
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
        raise HTTPException(404, "Nobody has asked for this plan.")
    confirmed = planned.confirmed
    known = None if confirmed is None else readings.audited(pipeline, confirmed.request_id)
    works = _working(planned, known)
    return page(
        request, "restore_plan.html", pipeline=pipeline, planned=planned, answer=known, state=_state(planned, known),
        works=works, run_state=None if works is None else runs.state(works.dag_id, works.run_id), rights=rights,
        anew=_anew(readings, planned, known), offers=offers_of_plan(planned, known, startable),
    )  # fmt: skip


def _working(planned: PlannedRestore, known: AuditRecord | None) -> AskedOfRun | None:
    """What somebody waits for now."""
    if planned.planned_at is None:
        return planned.asked
    return planned.confirmed if known is None else None


def _state(planned: PlannedRestore, known: AuditRecord | None) -> Word:
    if known is not None:
        return answer(known.answer.status)
    if planned.confirmed is not None:
        return Word("being restored", "busy")
    if planned.refusal is not None:
        return answer(AnswerStatus.REFUSED)
    return Word("being planned", "busy") if planned.planned_at is None else Word("to be confirmed", "warn")


def _anew(readings: ReadingsDep, planned: PlannedRestore, known: AuditRecord | None) -> str | None:
    """The plan as it is now, if it has changed since it was shown."""
    if known is None or known.answer.status is AnswerStatus.DONE or planned.confirmed is None:
        return None
    found = readings.planned_restore(planned.pipeline_id, planned.confirmed.request_id)
    return None if found is None else found.request_id
