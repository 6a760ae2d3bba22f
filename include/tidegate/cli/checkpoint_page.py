"""One checkpoint as a page: its outcome, then operators, subtasks, files and verdicts."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.console import Group
from rich.filesize import decimal
from rich.text import Text

from tidegate.cli.console import plain
from tidegate.cli.tables import Pairs, Table
from tidegate.cli.views import count, duration, hold_text, moment, size, status_of
from tidegate.protocol.steps.verdicts import FailedExpectation, failed_of
from tidegate.reading.checkpoint_answers import TaskWithAll, Verdict, WholeCheckpoint
from tidegate.settings import Settings

#: Shown instead of subtasks and files.
ROLLED_UP = "It ended long ago, so its subtasks and files are no longer listed one by one (CheckpointConfig.history)."


def checkpoint_page(checkpoint: WholeCheckpoint) -> Group:
    """Return the page. Its order is that of importance."""
    parts: list[Any] = [_head(checkpoint)]
    if checkpoint.hold is not None:
        parts.append(hold_text(checkpoint, checkpoint.hold))
    if checkpoint.failure_message:
        parts.append(Text(plain(checkpoint.failure_message), style="red"))
    if checkpoint.advice:
        parts.append(Text(plain(checkpoint.advice)))
    if checkpoint.verdicts:
        parts.append(_verdicts(checkpoint.verdicts))
        parts += failed_expectations_table([each for verdict in checkpoint.verdicts for each in _failed(verdict)])
        parts += report_line([verdict.docs_path for verdict in checkpoint.verdicts])
    tasks = list(checkpoint.tasks.values())
    parts += [_operators(tasks)]
    parts += [Text(ROLLED_UP)] if checkpoint.folded else [_subtasks(tasks), *_files(tasks)]
    return Group(*(each for part in parts for each in (part, Text())))


def _head(checkpoint: WholeCheckpoint) -> Group:
    took = duration(checkpoint.end_to_end_duration)
    acknowledged = f"{checkpoint.num_acknowledged_subtasks}/{checkpoint.num_subtasks} subtasks, after {took}"
    sizes = f"{size(checkpoint.checkpointed_size)} checkpointed of {size(checkpoint.state_size)}"
    rows = [
        ("Triggered", f"{moment(checkpoint.triggered_at)} by {checkpoint.request_id}"),
        ("Acknowledged", acknowledged),
        ("Completed", _moment_of(checkpoint.completed_at)),
        ("Failed", _moment_of(checkpoint.failed_at)),
        ("Failure", checkpoint.failure_reason),
        ("State", sizes if checkpoint.status == "COMPLETED" else None),
        ("Rows", f"{count(checkpoint.rows_in)} in, {count(checkpoint.rows_out)} out"),
        ("Metadata", checkpoint.external_path),
        ("Savepoint in", checkpoint.savepoint_location),
        ("Note", checkpoint.note),
    ]
    title = Text.from_markup(f"[bold]Checkpoint {checkpoint.id}[/] {status_of(checkpoint)}")
    return Group(title, Pairs(rows))


def _moment_of(at: datetime | None) -> str | None:
    return None if at is None else moment(at)


def _operators(tasks: Sequence[TaskWithAll]) -> Table:
    names = ("Operator", "Role", "Subtasks", "Rows in", "Rows out", "Checkpointed", "Full Size", "Duration")
    table = Table(*names, title="Operators", leave=("Role", "Checkpointed", "Duration", "Subtasks"))
    for task in tasks:
        table.add_row(
            Text(task.id),
            task.role,
            f"{task.num_acknowledged_subtasks}/{task.num_subtasks}",
            count(task.rows_in),
            count(task.rows_out),
            size(task.checkpointed_size),
            size(task.state_size),
            duration(task.end_to_end_duration),
        )
    return table


def _subtasks(tasks: Sequence[TaskWithAll]) -> Table:
    names = ("Operator", "Subtask", "Attempt", "Acknowledged", "Sync", "Async", "Rows in", "Rows out", "Full Size")
    table = Table(*names, title="Subtasks", leave=("Sync", "Async", "Attempt", "Rows out", "Rows in", "Full Size"))
    for task in tasks:
        for subtask in task.subtasks:
            table.add_row(
                Text(task.id),
                str(subtask.index),
                str(subtask.attempt),
                moment(subtask.acknowledged_at),
                duration(subtask.checkpoint.sync),
                duration(subtask.checkpoint.async_),
                count(subtask.rows_in),
                count(subtask.rows_out),
                size(subtask.state_size),
            )
    return table


def _files(tasks: Sequence[TaskWithAll]) -> list[Table]:
    """Return the table of files; empty for a checkpoint without files."""
    table = Table("File", "Rows", "Size", "SHA-256", title="Files", leave=("SHA-256", "Size", "Rows"), whole=("File",))
    for task in tasks:
        for subtask in task.subtasks:
            for handle in subtask.handles:
                rows, bytes_ = count(handle.rows), decimal(handle.bytes)
                table.add_row(Text(plain(handle.path)), rows, bytes_, handle.checksum[:12])
    return [table] if table.row_count else []


def _verdicts(verdicts: Sequence[Verdict]) -> Table:
    table = Table("Target", "Suite", "Verdict", "Failed", title="Verdicts", leave=("Suite",))
    for verdict in verdicts:
        table.add_row(
            verdict.target,
            Text(plain(verdict.suite)),
            _found(verdict.success, verdict.carried_from),
            f"{verdict.failed}/{verdict.evaluated}",
        )
    return table


def _found(success: bool | None, carried_from: int | None) -> str:
    if success and carried_from is not None:
        return f"passed, as in {carried_from}"
    return {True: "passed", False: "failed", None: "error"}[success]


def _failed(verdict: Verdict) -> list[FailedExpectation]:
    return failed_of(verdict.target, verdict.success, verdict.error, verdict.results)


def failed_expectations_table(failed: Sequence[FailedExpectation]) -> list[Table]:
    """Return the table of failed expectations; empty if none failed."""
    names = ("Target", "Expectation", "Column", "Observed", "Unexpected", "Samples")
    table = Table(*names, title="Failed expectations", leave=("Target",), wrap=("Observed", "Samples"))
    for each in failed:
        texts = (each.target, each.expectation, each.column, each.observed, each.unexpected, each.samples)
        table.add_row(*(Text(plain(text)) for text in texts))
    return [table] if failed else []


def report_line(paths: Sequence[str | None]) -> list[Text]:
    """Return a line with the path of the validation report, if there is one."""
    path = next(filter(None, paths), None)
    return [] if path is None else [Text(plain(f"Report: {Settings.from_environment().docs / path}"))]
