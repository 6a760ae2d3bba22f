"""The tables that the commands show, drawn from the answers that they print as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.filesize import decimal
from rich.markup import escape
from rich.text import Text

from tidegate.cli.console import plain
from tidegate.cli.tables import Table
from tidegate.documents.command_models import Dropped, Statistics, Taken
from tidegate.protocol.facts.names import Fork
from tidegate.reading.checkpoint_answers import Checkpoint, Hold
from tidegate.reading.history_answers import SUMMARIZED, PipelineStatus
from tidegate.reading.lag_answers import Lag, PartLag

if TYPE_CHECKING:
    from rich.console import RenderableType


_MOST_PARTS = 20


def statistics_tables(found: Statistics) -> Group:
    numbers = asdict(found.counts)
    counts = Table(*(name.replace("_", " ").capitalize() for name in numbers), title="Checkpoints")
    counts.add_row(*(f"{number:,}" for number in numbers.values()))
    summary = Table(
        "", "Minimum", "Average", "p50", "p90", "p95", "p99", "p99.9", "Maximum", title="Summary",
        leave=("p99.9", "p90", "p99", "p95", "Minimum", "p50"),
    )  # fmt: skip
    for figure, label in zip(SUMMARIZED, _FIGURE_LABELS, strict=True):
        of = found.summary[figure]
        shown = duration if figure.endswith("duration") else size
        values = (of.min, of.avg, of.p50, of.p90, of.p95, of.p99, of.p999, of.max)
        summary.add_row(label, *(shown(round(value)) for value in values))
    latest = found.latest
    ends = {one.id: one for one in (latest.completed, latest.failed, latest.savepoint) if one}
    last = history_table([ends[id_] for id_ in sorted(ends, reverse=True)])
    last.title = "Latest"
    parts: list[Any] = [Text(_standing(found.pipeline)), lag_text(found.lag), counts, summary, last]
    if behind := sorted((part for part in found.parts if part.pending), key=lambda part: -part.pending):
        parts.insert(2, parts_table(behind))
    if found.held is not None and found.held.hold is not None:
        parts.insert(1, hold_text(found.held, found.held.hold))
    if restored := latest.restored:
        parts.append(
            f"Latest restore: {restored.checkpoint_type.lower()} {restored.id} at "
            f"{moment(restored.restored_at)}, {restored.external_path}"
        )
    return Group(*parts)


def parts_table(behind: Sequence[PartLag]) -> Table:
    """Return the table of parts, those with the largest lag first."""
    title = "Lag" if len(behind) <= _MOST_PARTS else f"Lag: the first {_MOST_PARTS} of {len(behind):,}"
    table = Table("Source", "Part", "Behind", title=title)
    for part in behind[:_MOST_PARTS]:
        unit = part.unit.removesuffix("s") if part.pending == 1 else part.unit
        table.add_row(*(Text(plain(cell)) for cell in (part.source, part.part, f"{part.pending:,} {unit}")))
    return table


def lag_text(lags: Sequence[Lag]) -> Text:
    """Return the lag as a sentence, in the units of the sources."""
    shown = []
    for lag in lags:
        unit = lag.unit.removesuffix("s") if lag.pending == 1 else lag.unit
        size = f", {decimal(lag.bytes)}" if lag.pending and lag.bytes >= 0 else ""
        shown.append(f"{lag.pending:,} {unit}{size}, polled at {moment(lag.polled_at)}")
    return Text(plain(f"Lag: {'; '.join(shown) or 'no source has reported any'}."))


def _standing(pipeline: PipelineStatus) -> str:
    since = f" since {moment(pipeline.since)}" if pipeline.since else ""
    return " ".join(filter(None, (f"Pipeline {pipeline.status}{since}.", pipeline.message)))


_FIGURE_LABELS = (
    "End to End Duration",
    "Checkpointed Data Size",
    "Full Size",
    "Processed in-flight",
    "Persisted in-flight",
)


def run_table(document: Taken | Dropped) -> "RenderableType":
    if isinstance(document, Dropped):
        return Text(f"{document.dropped}: {document.message}")
    if not document.sinks:
        return Text(
            f"Checkpoint {document.id} {document.status}. The pipeline has no sink, so nothing is delivered; the "
            "checkpoint holds the state of its operators."
        )
    table = Table("Sink", "Rows", "Guarantee", title=f"Checkpoint {document.id} {document.status}")
    for sink in document.sinks:
        table.add_row(sink.sink, f"{sink.rows:,}", sink.guarantee)
    return table


def status_of(document: Checkpoint) -> str:
    shown = document.standing.text
    if original := document.forked_from:
        fork = Fork(original.pipeline, original.checkpoint, original.savepoint)
        shown += escape(f" (forked from {fork.describe()})")
    if not document.is_savepoint:
        return shown
    return shown + escape(f" [Savepoint {document.name}]" if document.name else " [Savepoint]")


def savepoints_table(documents: Sequence[Checkpoint]) -> Table:
    table = Table(
        "ID", "Name", "Taken", "Format", "Full Size", "Path", "Note",
        leave=("Format", "Full Size", "Path"), wrap=("Path", "Note"),
    )  # fmt: skip
    for document in documents:
        table.add_row(
            str(document.id),
            escape(document.name or "") + (" (left behind)" if document.abandoned else ""),
            moment(document.completed_at),
            (document.savepoint_format or "").lower(),
            decimal(document.state_size if document.savepoint_size is None else document.savepoint_size),
            document.savepoint_location or document.external_path,
            escape(document.note or ""),
        )
    return table


def history_table(documents: Sequence[Checkpoint]) -> Table:
    table = Table(
        "ID",
        "Status",
        "Acknowledged",
        "Trigger Time",
        "End to End Duration",
        "Checkpointed Data Size",
        "Full Size",
        "Failure",
        leave=("Acknowledged", "Full Size", "Checkpointed Data Size", "End to End Duration", "Trigger Time"),
        wrap=("Status", "Failure"),
    )
    for document in documents:
        table.add_row(
            str(document.id),
            status_of(document),
            f"{document.num_acknowledged_subtasks}/{document.num_subtasks}",
            moment(document.triggered_at),
            duration(document.end_to_end_duration),
            size(document.checkpointed_size),
            size(document.state_size),
            document.failure_reason or "",
        )
    return table


def hold_text(checkpoint: Checkpoint, hold: Hold) -> Text:
    """Describe the hold of a checkpoint: its end and reason while it waits, or the decision and who made it."""
    of = f"Checkpoint {checkpoint.id}"
    if hold.decision is not None:
        comment = f": {hold.comment}" if hold.comment else "."
        who = f"{hold.decision.lower()} by {hold.decided_by} at {moment(hold.decision_at)}{comment}"
        return Text(plain(f"{of} was held from {moment(hold.held_at)} on. {hold.message} It was {who}"))
    waits = "is held and waits for approval" if checkpoint.standing.text == "HELD" else "was held for approval"
    return Text(plain(f"{of} {waits} until {moment(hold.until_at)}. {hold.message}"), style="yellow")


def returning_states_table(states: list[dict[str, Any]], becomes: str) -> Table:
    """Return a table of the operators' state. `becomes` describes the effect on it; migrations are listed below."""
    table = Table("Operator", "State", "Rows in files", "Size", title="State", leave=(), wrap=("State",))
    for each in states:
        what = becomes if each["matched"] else "has no operator in the definition"
        what = "\n".join((what, *each["changes"]))
        table.add_row(each["operator_id"], what, f"{each['rows']:,}", decimal(each["bytes"]))
    return table


def moment(at: datetime | int | None) -> str:
    """Return a time in UTC. Milliseconds since 1970 are accepted too."""
    if isinstance(at, int):
        at = None if at < 0 else datetime.fromtimestamp(at / 1000, UTC)
    return "n/a" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def duration(milliseconds: int) -> str:
    return "n/a" if milliseconds < 0 else f"{milliseconds:,} ms"


def size(size: int) -> str:
    return "n/a" if size < 0 else decimal(size)


def count(count: int) -> str:
    return "n/a" if count < 0 else f"{count:,}"
