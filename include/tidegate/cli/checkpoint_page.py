"""One checkpoint as a page: what became of it, then its operators, their subtasks, its files, and what was judged."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group
from rich.filesize import decimal
from rich.text import Text

from tidegate.cli.console import plain
from tidegate.cli.tables import Pairs, Table
from tidegate.cli.views import count, duration, hold_text, moment, size, status_of
from tidegate.protocol.steps.verdicts import FailedExpectation, failed_of
from tidegate.settings import Settings

#: Instead of subtasks and files.
FOLDED = "It ended long ago: its subtasks and files are no longer on record one by one (CheckpointConfig.history)."


def checkpoint_page(document: dict[str, Any]) -> Group:
    """What people look for first stands first."""
    parts: list[Any] = [_head(document)]
    if document["hold"] is not None:
        parts.append(hold_text(document))
    if document["failure_message"]:
        parts.append(Text(plain(document["failure_message"]), style="red"))
    if document["advice"]:
        parts.append(Text(plain(document["advice"])))
    if document["verdicts"]:
        parts.append(_verdicts(document["verdicts"]))
        parts += judged_badly([each for verdict in document["verdicts"] for each in _failed(verdict)])
        parts += report_line([verdict["docs_path"] for verdict in document["verdicts"]])
    tasks = list(document["tasks"].values())
    parts += [_operators(tasks)]
    parts += [Text(FOLDED)] if document["folded"] else [_subtasks(tasks), *_files(tasks)]
    return Group(*(each for part in parts for each in (part, Text())))


def _head(document: dict[str, Any]) -> Group:
    took = duration(document["end_to_end_duration"])
    acknowledged = f"{document['num_acknowledged_subtasks']}/{document['num_subtasks']} subtasks, after {took}"
    sizes = f"{size(document['checkpointed_size'])} checkpointed of {size(document['state_size'])}"
    known = [
        ("Triggered", f"{moment(document['trigger_timestamp'])} by {document['request_id']}"),
        ("Acknowledged", acknowledged),
        ("Completed", _moment_of(document["completed_timestamp"])),
        ("Failed", _moment_of(document["failure_timestamp"])),
        ("Failure", document["failure_reason"]),
        ("State", sizes if document["status"] == "COMPLETED" else None),
        ("Rows", f"{count(document['rows_in'])} in, {count(document['rows_out'])} out"),
        ("Metadata", document["external_path"]),
        ("Savepoint in", document["savepoint_location"]),
        ("Note", document["note"]),
    ]
    title = Text.from_markup(f"[bold]Checkpoint {document['id']}[/] {status_of(document)}")
    return Group(title, Pairs(known))


def _moment_of(milliseconds: int) -> str | None:
    return None if milliseconds < 0 else moment(milliseconds)


def _operators(tasks: Sequence[dict[str, Any]]) -> Table:
    names = ("Operator", "Role", "Subtasks", "Rows in", "Rows out", "Checkpointed", "Full Size", "Duration")
    table = Table(*names, title="Operators", leave=("Role", "Checkpointed", "Duration", "Subtasks"))
    for task in tasks:
        table.add_row(
            Text(task["id"]),
            task["role"],
            f"{task['num_acknowledged_subtasks']}/{task['num_subtasks']}",
            count(task["rows_in"]),
            count(task["rows_out"]),
            size(task["checkpointed_size"]),
            size(task["state_size"]),
            duration(task["end_to_end_duration"]),
        )
    return table


def _subtasks(tasks: Sequence[dict[str, Any]]) -> Table:
    names = ("Operator", "Subtask", "Attempt", "Acknowledged", "Sync", "Async", "Rows in", "Rows out", "Full Size")
    table = Table(*names, title="Subtasks", leave=("Sync", "Async", "Attempt", "Rows out", "Rows in", "Full Size"))
    for task in tasks:
        for subtask in task.get("subtasks", ()):
            table.add_row(
                Text(task["id"]),
                str(subtask["index"]),
                str(subtask["attempt"]),
                moment(subtask["ack_timestamp"]),
                duration(subtask["checkpoint"]["sync"]),
                duration(subtask["checkpoint"]["async"]),
                count(subtask["rows_in"]),
                count(subtask["rows_out"]),
                size(subtask["state_size"]),
            )
    return table


def _files(tasks: Sequence[dict[str, Any]]) -> list[Table]:
    """None of a checkpoint without files."""
    table = Table("File", "Rows", "Size", "SHA-256", title="Files", leave=("SHA-256", "Size", "Rows"), whole=("File",))
    for task in tasks:
        for subtask in task.get("subtasks", ()):
            for handle in subtask["handles"]:
                rows, bytes_ = count(handle["rows"]), decimal(handle["bytes"])
                table.add_row(Text(plain(handle["path"])), rows, bytes_, handle["sha256"][:12])
    return [table] if table.row_count else []


def _verdicts(verdicts: Sequence[dict[str, Any]]) -> Table:
    table = Table("Target", "Suite", "Verdict", "Failed", title="Verdicts", leave=("Suite",))
    for verdict in verdicts:
        table.add_row(
            verdict["target"],
            Text(plain(verdict["suite"])),
            _found(verdict["success"], verdict["carried_from"]),
            f"{verdict['failed']}/{verdict['evaluated']}",
        )
    return table


def _found(success: bool | None, carried_from: int | None) -> str:
    if success and carried_from is not None:
        return f"passed, as in {carried_from}"
    return {True: "passed", False: "failed", None: "error"}[success]


def _failed(verdict: dict[str, Any]) -> list[FailedExpectation]:
    return failed_of(verdict["target"], verdict["success"], verdict["error"], verdict["results"])


def judged_badly(failed: Sequence[FailedExpectation]) -> list[Table]:
    """The table of what failed; none if nothing did."""
    names = ("Target", "Expectation", "Column", "Observed", "Unexpected", "Samples")
    table = Table(*names, title="What failed", leave=("Target",), wrap=("Observed", "Samples"))
    for each in failed:
        texts = (each.target, each.expectation, each.column, each.observed, each.unexpected, each.samples)
        table.add_row(*(Text(plain(text)) for text in texts))
    return [table] if failed else []


def report_line(paths: Sequence[str | None]) -> list[Text]:
    """Where the report of a validation is, if there is one."""
    path = next(filter(None, paths), None)
    return [] if path is None else [Text(plain(f"Report: {Settings.from_environment().docs / path}"))]
