"""What the commands show, as JSON documents first; the tables are drawn from the same documents.

Field names follow Flink's REST API (protocol.md section 20): timestamps are milliseconds since 1970, sizes bytes,
durations milliseconds, -1 where nothing was reported.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.console import Group
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tidegate.cli.run import RunOutcome
from tidegate.protocol.pipelines import PipelineRecord
from tidegate.protocol.records import CheckpointRecord, SubtaskId, SubtaskRecord, Verdict
from tidegate.protocol.statistics import LatestRestore, Statistics, count_checkpoints, summarize


def to_json(document: Any) -> str:
    return json.dumps(document, indent=2)


def checkpoint_document(record: CheckpointRecord) -> dict[str, Any]:
    latest = record.acknowledged_at or record.failed_at
    return {
        "id": record.checkpoint_id,
        "checkpoint_type": record.kind.value,
        "drain": record.drain,
        "status": record.status.value,
        "phase": record.phase.value,
        "request_id": record.request_id,
        "trigger_timestamp": _ms(record.triggered_at),
        "latest_ack_timestamp": _ms(record.acknowledged_at),
        "completed_timestamp": _ms(record.completed_at),
        "notified_timestamp": _ms(record.notified_at),
        "end_to_end_duration": -1 if latest is None else max(0, _ms(latest) - _ms(record.triggered_at)),
        "num_subtasks": record.num_subtasks,
        "num_acknowledged_subtasks": record.num_acknowledged,
        "num_finished_subtasks": record.num_finished,
        "checkpointed_size": record.checkpointed_size,
        "state_size": record.state_size,
        "external_path": record.metadata_path,
        "failure_timestamp": _ms(record.failed_at),
        "failure_reason": record.failure_reason.name if record.failure_reason else None,
        "failure_message": record.failure_message,
    }


def details_document(
    record: CheckpointRecord, subtasks: Mapping[SubtaskId, SubtaskRecord], verdicts: Sequence[Verdict]
) -> dict[str, Any]:
    return checkpoint_document(record) | {
        "operators": [
            {
                "operator_id": plan.operator_id,
                "parallelism": plan.parallelism,
                "max_parallelism": plan.max_parallelism,
                "subtasks": [
                    _subtask(subtasks[key]) for key in sorted(subtasks) if key.operator_id == plan.operator_id
                ],
            }
            for plan in record.operators
        ],
        "verdicts": [_verdict(verdict) for verdict in verdicts],
    }


def _subtask(known: SubtaskRecord) -> dict[str, Any]:
    metrics = known.metrics
    return {
        "index": known.subtask.subtask_index,
        "attempt": known.attempt,
        "ack_timestamp": _ms(known.acknowledged_at),
        "finished": known.snapshot.finished,
        "start_delay": metrics.start_delay,
        "alignment": {"duration": metrics.alignment_duration, "processed": metrics.processed_bytes},
        "checkpoint": {"sync": metrics.sync_duration, "async": metrics.async_duration},
        "rows_in": metrics.rows_in,
        "rows_out": metrics.rows_out,
        "state_size": known.snapshot.state_size(),
        "position": None if known.snapshot.position is None else dict(known.snapshot.position),
        "handles": [
            {
                "kind": handle.kind.value,
                "path": handle.path,
                "rows": handle.rows,
                "bytes": handle.bytes,
                "sha256": handle.checksum,
                "created_by": handle.created_by,
            }
            for handle in known.snapshot.handles
        ],
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "target": verdict.target,
        "suite": verdict.suite,
        "success": verdict.success,
        "evaluated": verdict.evaluated,
        "failed": verdict.failed,
        "error": verdict.error,
        "docs_path": verdict.docs_path,
        "results": [dict(result) for result in verdict.results],
    }


_FIGURES = ("end_to_end_duration", "checkpointed_size", "state_size", "processed_data", "persisted_data")


def statistics_document(pipeline: PipelineRecord | None, statistics: Statistics) -> dict[str, Any]:
    completed, failed, savepoint = statistics.latest_completed, statistics.latest_failed, statistics.latest_savepoint
    known = pipeline or PipelineRecord("")
    return {
        "pipeline": {"status": known.status, "since_timestamp": _ms(known.since), "message": known.message},
        "counts": asdict(count_checkpoints(statistics.by_status, statistics.restores)),
        "summary": {
            figure: asdict(summarize([getattr(measured, figure) for measured in statistics.measurements]))
            for figure in _FIGURES
        },
        "latest": {
            "completed": None if completed is None else checkpoint_document(completed),
            "failed": None if failed is None else checkpoint_document(failed),
            "savepoint": None if savepoint is None else checkpoint_document(savepoint),
            "restored": _restored(statistics.latest_restore),
        },
    }


def _restored(latest: LatestRestore | None) -> dict[str, Any] | None:
    if latest is None:
        return None
    return {
        "id": latest.checkpoint.checkpoint_id,
        "checkpoint_type": latest.checkpoint.kind.value,
        "restore_timestamp": _ms(latest.at),
        "external_path": latest.checkpoint.metadata_path,
    }


def statistics_tables(document: dict[str, Any]) -> Group:
    counts = Table(*(name.replace("_", " ").capitalize() for name in document["counts"]), title="Checkpoints")
    counts.add_row(*(f"{number:,}" for number in document["counts"].values()))
    summary = Table("", "Minimum", "Average", "p50", "p90", "p95", "p99", "p99.9", "Maximum", title="Summary")
    for figure, label in zip(_FIGURES, _FIGURE_LABELS, strict=True):
        values = document["summary"][figure]
        shown = _duration if figure.endswith("duration") else _size
        order = ("min", "avg", "p50", "p90", "p95", "p99", "p999", "max")
        summary.add_row(label, *(shown(round(values[name])) for name in order))
    ends = {found["id"]: found for end in ("completed", "failed", "savepoint") if (found := document["latest"][end])}
    latest = history_table([ends[id_] for id_ in sorted(ends, reverse=True)])
    latest.title = "Latest"
    parts: list[Any] = [_standing(document["pipeline"]), counts, summary, latest]
    if restored := document["latest"]["restored"]:
        parts.append(
            f"Latest restore: {restored['checkpoint_type'].lower()} {restored['id']} at "
            f"{_time(restored['restore_timestamp'])}, {restored['external_path']}"
        )
    return Group(*parts)


def _standing(pipeline: dict[str, Any]) -> str:
    since = f" since {_time(pipeline['since_timestamp'])}" if pipeline["since_timestamp"] >= 0 else ""
    return " ".join(filter(None, (f"Pipeline {pipeline['status']}{since}.", pipeline["message"])))


_FIGURE_LABELS = (
    "End to End Duration",
    "Checkpointed Data Size",
    "Full Size",
    "Processed in-flight",
    "Persisted in-flight",
)


def run_document(outcome: RunOutcome) -> dict[str, Any]:
    if outcome.dropped is not None:
        return {"dropped": outcome.dropped.reason.name, "message": outcome.dropped.message}
    assert outcome.record is not None
    sinks = [{"sink": each.sink, "rows": each.rows, "guarantee": each.guarantee} for each in outcome.delivered]
    return checkpoint_document(outcome.record) | {"sinks": sinks}


def run_table(document: dict[str, Any]) -> Any:
    if "dropped" in document:
        return Text(f"{document['dropped']}: {document['message']}")
    table = Table("Sink", "Rows", "Guarantee", title=f"Checkpoint {document['id']} {document['status']}")
    for sink in document["sinks"]:
        table.add_row(sink["sink"], f"{sink['rows']:,}", sink["guarantee"])
    return table


def _status(document: dict[str, Any]) -> str:
    phase = f" ({document['phase']})" if document["status"] == "IN_PROGRESS" else ""
    return f"{document['status']}{phase}" + (
        "" if document["checkpoint_type"] == "CHECKPOINT" else escape(" [Savepoint]")
    )


def history_table(documents: list[dict[str, Any]]) -> Table:
    table = Table(
        "ID",
        "Status",
        "Acknowledged",
        "Trigger Time",
        "End to End Duration",
        "Checkpointed Data Size",
        "Full Size",
        "Failure",
    )
    for document in documents:
        table.add_row(
            str(document["id"]),
            _status(document),
            f"{document['num_acknowledged_subtasks']}/{document['num_subtasks']}",
            _time(document["trigger_timestamp"]),
            _duration(document["end_to_end_duration"]),
            decimal(document["checkpointed_size"]),
            decimal(document["state_size"]),
            document["failure_reason"] or "",
        )
    return table


def details_tables(document: dict[str, Any]) -> Group:
    parts: list[Any] = [history_table([document])]
    if document["failure_message"]:
        parts.append(Text(document["failure_message"], style="red"))
    table = Table(
        "Operator",
        "Subtask",
        "Attempt",
        "Acknowledged",
        "Sync",
        "Async",
        "Rows in",
        "Rows out",
        "Full Size",
        "Files",
        title="Subtasks",
    )
    for operator in document["operators"]:
        for subtask in operator["subtasks"]:
            table.add_row(
                operator["operator_id"],
                str(subtask["index"]),
                str(subtask["attempt"]),
                _time(subtask["ack_timestamp"]),
                _duration(subtask["checkpoint"]["sync"]),
                _duration(subtask["checkpoint"]["async"]),
                _count(subtask["rows_in"]),
                _count(subtask["rows_out"]),
                decimal(subtask["state_size"]),
                "\n".join(f"{handle['path']} {handle['sha256'][:12]}" for handle in subtask["handles"]),
            )
    parts.append(table)
    if document["verdicts"]:
        verdicts = Table("Target", "Suite", "Verdict", "Failed", "Report", title="Verdicts")
        for verdict in document["verdicts"]:
            verdicts.add_row(
                verdict["target"],
                verdict["suite"],
                {True: "passed", False: "failed", None: "error"}[verdict["success"]],
                f"{verdict['failed']}/{verdict['evaluated']}",
                verdict["error"] or verdict["docs_path"] or "",
            )
        parts.append(verdicts)
    return Group(*parts)


def _ms(at: datetime | None) -> int:
    return -1 if at is None else round(at.timestamp() * 1000)


def _time(milliseconds: int) -> str:
    if milliseconds < 0:
        return "n/a"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _duration(milliseconds: int) -> str:
    return "n/a" if milliseconds < 0 else f"{milliseconds:,} ms"


def _size(size: int) -> str:
    return "n/a" if size < 0 else decimal(size)


def _count(count: int) -> str:
    return "n/a" if count < 0 else f"{count:,}"
