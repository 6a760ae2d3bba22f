"""The output of the demonstration: lines, tables and one verdict. It reads no data itself."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from flights.layout import Layout
from flights.observation import Content, Observation
from local_stack.stack import USER, LocalStack
from tidegate.protocol.facts.records import CheckpointRecord, Verdict

if TYPE_CHECKING:
    from flights.batch import Comparison

STEPS = ("trigger", "snapshot", "acknowledge", "validate", "finalize", "notify", "abort")
_STYLES = {
    "success": "green",
    "failed": "red",
    "upstream_failed": "red dim",
    "skipped": "dim",
    "running": "yellow",
    "deferred": "yellow",
    "up_for_retry": "magenta",
}
#: The number of rows and columns shown for a failed expectation. The report has more.
ROWS, COLUMNS = 3, 4


def chapter(console: Console, name: str, what: str) -> None:
    console.print()
    console.rule(f"[bold]{name}", align="left")
    console.print(f"{what[0].upper()}{what[1:]}.", markup=False)


def steps(tasks: Mapping[str, Mapping[str, Any]]) -> str:
    """Return one line with the state of each of the DAG run's tasks."""
    shown = []
    for name in STEPS:
        state = tasks.get(name, {}).get("state") or "waiting"
        word = name if state == "success" else f"{name} {state}"
        shown.append(f"[{_STYLES.get(state, 'dim')}]{word}[/]")
    return " · ".join(shown)


def completed(console: Console, record: CheckpointRecord, seen: Observation, attempts: int = 1) -> None:
    assert record.completed_at is not None
    seconds = (record.completed_at - record.triggered_at).total_seconds()
    console.print(
        f"Checkpoint {record.checkpoint_id} [green]{record.status}[/]: {record.num_acknowledged} of "
        f"{record.num_subtasks} subtasks acknowledged{f' in {attempts} attempts' if attempts > 1 else ''}, "
        f"{decimal(record.checkpointed_size)} written, {decimal(record.state_size)} referred to, {seconds:.1f} s."
    )
    table = Table("What readers see", "Rows", "What the next run starts from", "")
    kept = [(f"source {name}", f"{content.amount:,} files read") for name, content in seen.positions.items()]
    kept += [(f"state {name}", f"{content.amount:,} rows in runs") for name, content in seen.state.items()]
    rows = [(name, f"{content.amount:,}") for name, content in seen.tables.items()]
    for index in range(max(len(rows), len(kept))):
        table.add_row(
            *(rows[index] if index < len(rows) else ("", "")), *(kept[index] if index < len(kept) else ("", ""))
        )
    console.print(table)


def at_once(console: Console, record: CheckpointRecord, wrote: Mapping[str, int]) -> None:
    """Print the transaction that wrote each table and the checkpoint, which is the same. `wrote` has it by name."""
    tables = ", ".join(sorted(name for name in wrote if name != "checkpoint"))
    console.print(
        f"Checkpoint {record.checkpoint_id} became visible in transaction {wrote['checkpoint']}, and in the same one "
        f"{tables}."
    )


def looked_at(console: Console, reads: Mapping[int, int], of_two: int) -> None:
    """Print the number of reads. `reads` has it by the number of departures that the tables had."""
    parts = ", ".join(f"{number:,} with {departures:,} departures" for departures, number in sorted(reads.items()))
    console.print(
        "Meanwhile a reader counted the departures in Iceberg by carrier, and compared the result with carrier_delays "
        f"in Iceberg and carrier_mart in Postgres: {sum(reads.values()):,} reads, {parts}, {of_two} of two checkpoints."
    )


def stopped(console: Console, record: CheckpointRecord, verdicts: Sequence[Verdict], reports: Path) -> None:
    """Print why validation refused a checkpoint: the failed expectations, and rows that failed."""
    reason = record.failure_reason.name if record.failure_reason else ""
    console.print(
        f"Checkpoint {record.checkpoint_id} [red]{record.status}[/] {reason}. {escape(record.failure_message or '')}"
    )
    table = Table("Target", "Expectation", "Rows", "Such as", title="Failed expectations")
    for verdict in verdicts:
        for result in verdict.results:
            if not result["success"]:
                table.add_row(
                    str(verdict.target),
                    escape(f"{result['type'].removeprefix('expect_')}\n{_pairs(result['kwargs'])}"),
                    _share(result["unexpected_count"], result["element_count"]),
                    escape(
                        "\n".join(_row(row, result["kwargs"].get("column")) for row in result["unexpected_rows"][:ROWS])
                    ),
                )
    console.print(table)
    for page in sorted({verdict.docs_path for verdict in verdicts if verdict.docs_path}):
        console.print(f"Report: {reports / page}", soft_wrap=True)


def _share(unexpected: int | None, of: int | None) -> str:
    return "" if unexpected is None or of is None else f"{unexpected:,} of {of:,}"


def _row(row: Mapping[str, Any], column: str | None) -> str:
    """Return the unexpected value, then the columns that identify its row."""
    ordered = sorted(row.items(), key=lambda item: item[0] != column)
    return _pairs(dict(ordered[:COLUMNS]))


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def compared_with(console: Console, before: Observation, after: Observation, title: str) -> None:
    table = Table("", "Before", "After", "", title=title)
    for kind in ("tables", "positions", "state"):
        old: dict[str, Content] = getattr(before, kind)
        new: dict[str, Content] = getattr(after, kind)
        for name in sorted(old.keys() | new.keys()):
            same = old.get(name) == new.get(name)
            table.add_row(
                f"{kind}: {name}",
                _content(old.get(name)),
                _content(new.get(name)),
                "[green]unchanged" if same else "[red]CHANGED",
            )
    console.print(table)


def _content(content: Content | None) -> str:
    return "nothing" if content is None else f"{content.amount:,} ({content.digest[:8]})"


def killed(console: Console, pid: int, seen: CheckpointRecord) -> None:
    console.print(
        f"[magenta]SIGKILL[/] to Spark (process {pid}) while checkpoint {seen.checkpoint_id} had "
        f"{seen.num_acknowledged} of {seen.num_subtasks} subtasks acknowledged. Airflow retries the task."
    )


def compared(console: Console, comparisons: Sequence["Comparison"]) -> None:
    table = Table("Table", "Rows delivered", "Rows computed", "Missing", "Surplus", "")
    for comparison in comparisons:
        figures = (comparison.rows, comparison.expected, comparison.missing, comparison.surplus)
        word = "[green]identical" if comparison.identical else "[red]DIFFERENT"
        table.add_row(comparison.table, *(f"{figure:,}" for figure in figures), word)
    console.print(table)


def verdict(console: Console, identical: bool, seconds: float) -> None:
    console.print()
    if identical:
        console.print(
            f"[bold green]Every table equals the batch computation, row for row.[/] {_minutes(seconds)}. "
            "`make up` shows the DAG runs in the browser."
        )
    else:
        console.print(f"[bold red]The tables differ from the batch computation.[/] {_minutes(seconds)}.")


def _minutes(seconds: float) -> str:
    return f"{int(seconds // 60)} min {seconds % 60:.0f} s"


def running(console: Console, stack: LocalStack, layout: Layout) -> None:
    console.print(f"Airflow: {stack.url}   user: {USER}   password: in {stack.password_file}", soft_wrap=True)
    console.print(f"History: TIDEGATE_HOME={layout.home} .venv/bin/tidegate checkpoints flight_delays", soft_wrap=True)
    console.print("Stop it with: make down")
    console.print(f"Checkpoints: {stack.url}/plugin/checkpoints", soft_wrap=True)
