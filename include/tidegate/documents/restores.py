"""The plan of a restore as JSON, the parts of it that must be accepted, and a digest of its content."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tidegate.documents.audit import audit_line
from tidegate.documents.pipeline_models import PlanDocument, RequestOnPage
from tidegate.protocol.observing.actions import AuditRecord
from tidegate.protocol.recovery.metadata import edited_document
from tidegate.protocol.recovery.restore_plan import RestorePlan, ReturningState
from tidegate.protocol.recovery.restores_on_pages import PlannedRestore, RequestOfRun, accepted_document
from tidegate.protocol.recovery.skipping import SkipPlan
from tidegate.protocol.text.storable import storable_json
from tidegate.reading.checkpoint_answers import DagRun
from tidegate.reading.checkpoint_rows import checkpoint_of

#: The number of missing files that a stored plan names for each source.
MISSING_SHOWN = 500


def plan_document(plan: RestorePlan) -> dict[str, Any]:
    """Return the plan as JSON; sizes are bytes."""
    return {
        "checkpoint": checkpoint_of(plan.checkpoint).model_dump(mode="json"),
        "copied_from": plan.origin,
        "edited": None if plan.edited is None else edited_document(plan.edited) | {"description": str(plan.edited)},
        "moved": [str(moved) for moved in plan.moved],
        "latest_checkpoint": None if plan.previous is None else plan.previous.checkpoint_id,
        "undoes_restore": plan.undoes,
        "abandoned_checkpoints": list(plan.left_behind),
        "returning_checkpoints": list(plan.coming_back),
        "aborted_checkpoints": list(plan.aborted),
        "sources": [
            {"source": part.source, "files": part.pieces, "bytes": part.bytes, "missing": list(part.missing)}
            for part in plan.sources
        ],
        "skipped": [
            {"source": part.source, "checkpoint": part.checkpoint_id, "lost": [asdict(rows) for rows in part.lost]}
            for part in plan.skipped
        ],
        "operators": [returning_state_document(operator) for operator in plan.operators],
        "sinks": [
            {
                "sink": sink.sink,
                "can_rewind": sink.can_rewind,
                "withdrawn_checkpoints": list(sink.withdrawn),
                "files": sink.files,
                "rows": sink.rows,
                "bytes": sink.bytes,
            }
            for sink in plan.sinks
        ],
    }


def skip_document(plan: SkipPlan) -> dict[str, Any]:
    """Return the skipped rows as JSON."""
    return {
        "pipeline": plan.checkpoint.pipeline_id,
        "source": plan.source,
        "checkpoint": plan.checkpoint.checkpoint_id,
        "aborted_checkpoints": list(plan.aborted),
        "lost": [asdict(rows) for rows in plan.lost],
    }


def returning_state_document(state: ReturningState) -> dict[str, Any]:
    """Return the state that an operator gets back in a restore, or a new pipeline's operator in a fork."""
    return asdict(state) | {"changes": list(state.changes)}


def plan_digest(document: Mapping[str, Any]) -> str:
    """Return a digest of everything that the plan does.

    Of the checkpoint it covers the id alone. Its other fields, such as the time when its sinks were notified, may
    change without changing the plan.
    """
    covered = {**document, "checkpoint": document["checkpoint"]["id"]}
    return hashlib.sha256(json.dumps(covered, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def shown_plan(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan as it is stored. Names of files that cannot be stored are replaced, and only the first of very
    many are listed.
    """
    sources = [
        {**source, "missing": source["missing"][:MISSING_SHOWN], "missing_files": len(source["missing"])}
        for source in document["sources"]
    ]
    shown: dict[str, Any] = storable_json({**document, "sources": sources})
    return shown


def planned_restore(planned: PlannedRestore, answer: AuditRecord | None) -> PlanDocument:
    """Return the document of a planned restore. `answer` is its outcome, once it was confirmed."""
    confirmed = planned.confirmed
    return PlanDocument(
        request_id=planned.request_id,
        pipeline=planned.pipeline_id,
        to=planned.target,
        requested=_request(planned.requested),
        planned_at=planned.planned_at,
        plan=planned.document,
        digest=planned.digest,
        refusal=planned.refusal,
        confirmed=None if confirmed is None else _request(confirmed),
        accepted=None if confirmed is None else accepted_document(planned.accepted),
        answer=None if answer is None else audit_line(answer),
    )


def _request(request: RequestOfRun) -> RequestOnPage:
    return RequestOnPage(
        request_id=request.request_id,
        by=request.actor.name,
        origin=request.actor.origin,
        at=request.at,
        dag_run=DagRun(dag_id=request.dag_id, run_id=request.run_id),
    )
