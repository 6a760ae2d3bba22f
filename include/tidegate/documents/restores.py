"""The plan of a restore as JSON, what of it must be accepted, and a digest of what it says."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tidegate.documents.checkpoints import checkpoint_document, returning_state_document
from tidegate.protocol.recovery.metadata import edited_document
from tidegate.protocol.recovery.restore_plan import RestorePlan
from tidegate.protocol.recovery.restores_on_pages import AskedOfRun, PlannedRestore, accepted_document
from tidegate.protocol.text.storable import storable_json
from tidegate.reading.answer import milliseconds

#: Names of missing files that a stored plan shows of each source.
MISSING_SHOWN = 500


def plan_document(plan: RestorePlan) -> dict[str, Any]:
    """The plan as JSON; sizes are bytes."""
    return {
        "checkpoint": checkpoint_document(plan.checkpoint),
        "copied_from": plan.origin,
        "edited": None if plan.edited is None else edited_document(plan.edited) | {"said": str(plan.edited)},
        "moved": [str(moved) for moved in plan.moved],
        "latest_checkpoint": None if plan.previous is None else plan.previous.checkpoint_id,
        "undoes_restore": plan.undoes,
        "abandoned_checkpoints": list(plan.left_behind),
        "returning_checkpoints": list(plan.coming_back),
        "aborted_checkpoints": list(plan.aborted),
        "sources": [
            {"source": each.source, "files": each.pieces, "bytes": each.bytes, "missing": list(each.missing)}
            for each in plan.sources
        ],
        "operators": [returning_state_document(each) for each in plan.operators],
        "sinks": [
            {
                "sink": each.sink,
                "can_rewind": each.can_rewind,
                "withdrawn_checkpoints": list(each.withdrawn),
                "files": each.files,
                "bytes": each.bytes,
            }
            for each in plan.sinks
        ],
    }


def plan_digest(document: Mapping[str, Any]) -> str:
    """Covers everything that the plan does. Of the checkpoint it takes the id alone: the rest, such as when its sinks
    were notified, may change without changing the plan."""
    said = {**document, "checkpoint": document["checkpoint"]["id"]}
    return hashlib.sha256(json.dumps(said, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def shown_plan(document: Mapping[str, Any]) -> dict[str, Any]:
    """The plan as it is stored: names of files that cannot be stored are made so, and of very many the first."""
    sources = [
        {**each, "missing": each["missing"][:MISSING_SHOWN], "missing_files": len(each["missing"])}
        for each in document["sources"]
    ]
    shown: dict[str, Any] = storable_json({**document, "sources": sources})
    return shown


def planned_restore_document(planned: PlannedRestore) -> dict[str, Any]:
    return {
        "request_id": planned.request_id,
        "pipeline": planned.pipeline_id,
        "to": planned.target,
        "asked": _asked_document(planned.asked),
        "planned_timestamp": milliseconds(planned.planned_at),
        "plan": planned.document,
        "digest": planned.digest,
        "refusal": planned.refusal,
        "confirmed": None if planned.confirmed is None else _asked_document(planned.confirmed),
        "accepted": None if planned.confirmed is None else accepted_document(planned.accepted),
    }


def _asked_document(asked: AskedOfRun) -> dict[str, Any]:
    return {
        "request_id": asked.request_id,
        "by": asked.actor.name,
        "origin": asked.actor.origin,
        "timestamp": milliseconds(asked.at),
        "dag_run": {"dag_id": asked.dag_id, "run_id": asked.run_id},
    }
