"""A pipeline as a whole as JSON: its statistics, its options, and what it has."""

from dataclasses import asdict
from typing import Any

from tidegate.documents.checkpoints import checkpoint_document, history_documents
from tidegate.protocol.facts.pipelines import PipelineRecord
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord
from tidegate.protocol.observing.statistics import LatestRestore
from tidegate.reading.answer import milliseconds
from tidegate.reading.checkpoint_answers import CheckpointPage
from tidegate.reading.history_answers import Figures, History, PipelineSummary


def statistics_document(
    pipeline: PipelineRecord, summary: PipelineSummary, held: CheckpointPage | None = None
) -> dict[str, Any]:
    """Flink's overview of the checkpoints, without the history. `held` is the one that waits for a person now."""

    def shown(record: CheckpointRecord | None) -> dict[str, Any] | None:
        if record is None:
            return None
        return checkpoint_document(record, summary.figures_of.get(record.checkpoint_id, Figures()))

    return {
        "pipeline": status_document(pipeline),
        "counts": asdict(summary.counts),
        "summary": {name: asdict(figure) for name, figure in summary.figures.items()},
        "held": None if held is None else checkpoint_document(held.record, held.figures, held.standing),
        "latest": {
            "completed": shown(summary.latest_completed),
            "failed": shown(summary.latest_failed),
            "savepoint": shown(summary.latest_savepoint),
            "restored": _restored(summary.latest_restore),
        },
    }


def status_document(pipeline: PipelineRecord) -> dict[str, Any]:
    return {
        "status": pipeline.status,
        "since_timestamp": milliseconds(pipeline.since),
        "message": pipeline.message,
    }


def _restored(latest: LatestRestore | None) -> dict[str, Any] | None:
    if latest is None:
        return None
    return {
        "id": latest.checkpoint.checkpoint_id,
        "checkpoint_type": latest.checkpoint.kind.value,
        "is_savepoint": latest.checkpoint.kind is not CheckpointKind.CHECKPOINT,
        "restore_timestamp": milliseconds(latest.at),
        "external_path": latest.checkpoint.metadata_path,
    }


def checkpoints_document(pipeline: PipelineRecord, summary: PipelineSummary, history: History) -> dict[str, Any]:
    """Flink's overview as a whole. `next_before` is the place of the next page."""
    return statistics_document(pipeline, summary) | history_document_of(history)


def history_document_of(history: History) -> dict[str, Any]:
    return {"history": history_documents(history.rows), "next_before": history.next_before}
