"""`tidegate state`: rows of an operator's state, a key's history, or the changes between two checkpoints."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from tidegate import assembly
from tidegate.cli.console import plain
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument, name_of, show
from tidegate.cli.tables import Table
from tidegate.cli.views import moment
from tidegate.coordination.recovery.operator_state import find_history, find_state
from tidegate.documents.command_models import KeyHistory, RowAt, StateChanges, StateRows
from tidegate.protocol.facts.errors import OperatorNotFoundError
from tidegate.protocol.facts.records import CheckpointRecord

if TYPE_CHECKING:
    from rich.console import RenderableType

Document = dict[str, Any]


def state(
    pipeline: PipelineArgument,
    operator: Annotated[str, typer.Argument(help="A keyed operator of the pipeline.")],
    checkpoint_id: Annotated[
        int | None,
        typer.Option("--checkpoint", metavar="ID", help="The checkpoint; by default the latest completed one."),
    ] = None,
    savepoint: Annotated[
        str | None, typer.Option(metavar="NAME", help="A savepoint by name or number, instead of a checkpoint.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="Show only the row of this key: its value, or a JSON object or list of the key columns' values."
        ),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Show the key's row at every retained checkpoint.")
    ] = False,
    diff: Annotated[
        tuple[int, int] | None, typer.Option(metavar="ID ID", help="Show the changes from one checkpoint to another.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="The number of rows to show.")] = 10,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show the state of a keyed operator.

    Shows the number of rows and the first of them, the row of a key, a key's history, or the changes between two
    checkpoints. Needs neither Spark nor the definition.
    """
    one_moment = checkpoint_id is not None or savepoint is not None
    if history and (key is None or one_moment or diff is not None):
        raise typer.BadParameter(
            "--history needs --key and covers all checkpoints. Leave --checkpoint, --savepoint and --diff out."
        )
    if diff is not None and one_moment:
        raise typer.BadParameter("--diff names both checkpoints. Leave --checkpoint and --savepoint out.")
    name = name_of(pipeline)
    if history and key is not None:
        show(_history(name, operator, key), output, history_table)
    elif diff is not None:
        show(_changes(name, operator, diff, key, limit), output, changes_table)
    else:
        show(_rows(name, operator, checkpoint_id, savepoint, key, limit), output, rows_table)


def _rows(
    pipeline: str, operator: str, checkpoint: int | None, savepoint: str | None, key: str | None, limit: int
) -> StateRows:
    """Return the number of rows at a checkpoint or savepoint and the first of them, or the row of a key."""
    files = assembly.find_state_files(pipeline, operator, checkpoint=checkpoint, savepoint=savepoint)
    at = files.state.checkpoint_id
    number, rows = _first(_read(pipeline, operator, at, key), limit)
    return StateRows(pipeline=pipeline, operator=operator, checkpoint=at, num_rows=number, rows=rows)


def _changes(pipeline: str, operator: str, diff: tuple[int, int], key: str | None, limit: int) -> StateChanges:
    """Return the number of rows that changed between two checkpoints, and the first of them."""
    before, now = diff
    number, rows = _first(_read(pipeline, operator, now, key, before), limit)
    return StateChanges(
        pipeline=pipeline, operator=operator, changes_since=before, checkpoint=now, num_changes=number, changes=rows
    )


def _history(pipeline: str, operator: str, key: str) -> KeyHistory:
    """Return the row of a key at each retained checkpoint, newest first; null where it has none."""
    with closing(assembly.open_store()) as store:
        find_state(store, pipeline, operator)  # the operator must exist today
        kept = find_history(store, pipeline)
    history = [_at(record, operator, key) for record in reversed(kept)]
    return KeyHistory(pipeline=pipeline, operator=operator, history=history)


def _at(record: CheckpointRecord, operator: str, key: str) -> RowAt:
    try:
        _, rows = _first(_read(record.pipeline_id, operator, record.checkpoint_id, key), 1)
    except OperatorNotFoundError:  # it had no state yet
        rows = []
    row = rows[0] if rows else None
    return RowAt(checkpoint=record.checkpoint_id, completed_at=record.completed_at, row=row)


def _read(pipeline: str, operator: str, checkpoint: int, key: str | None, since: int | None = None) -> Iterator[Any]:
    """Yield batches. The modules that read state are heavy, so they are imported when a command needs them."""
    from tidegate.state.keys import key_of_text

    key_values = None if key is None else key_of_text(key)
    yield from assembly.read_state(pipeline, operator, checkpoint=checkpoint, key=key_values, changes_since=since)


def _first(batches: Iterator[Any], limit: int) -> tuple[int, list[Document]]:
    """Return the number of rows, and the first of them."""
    from tidegate.state.showing import json_rows

    number, rows = 0, list[Document]()
    for batch in batches:
        number += batch.num_rows
        rows += json_rows(batch.slice(0, limit - len(rows)))
    return number, rows


def rows_table(found: StateRows) -> Any:
    return _table(found.rows, found.num_rows, f"{found.operator} at checkpoint {found.checkpoint}", "row")


def changes_table(found: StateChanges) -> Any:
    what = f"{found.operator} from checkpoint {found.changes_since} to {found.checkpoint}"
    return _table(found.changes, found.num_changes, what, "change")


def history_table(found: KeyHistory) -> Any:
    columns = next((list(each.row) for each in found.history if each.row), [])
    table = _with_columns(Table("Checkpoint", "Completed", title=found.operator), columns)
    for each in found.history:
        values = [_cell(each.row[name]) for name in columns] if each.row else ["no row"][: len(columns)]
        table.add_row(str(each.checkpoint), moment(each.completed_at), *values)
    return table


def _table(rows: Sequence[Document], number: int, what: str, noun: str) -> "RenderableType":
    shown = "" if len(rows) in (0, number) else f", of which these are the first {len(rows)}"
    heading = Text(f"{what}: {number:,} {noun}{'' if number == 1 else 's'}{shown}.")
    if not rows:
        return heading
    table = _with_columns(Table(), rows[0])
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    return Group(heading, table)


def _with_columns(table: Table, names: Iterable[str]) -> Table:
    for name in names:
        table.add_column(_cell(name))
    return table


def _cell(value: object) -> Text:
    if value is None:
        return Text("null", style="dim")
    return Text(plain(str(value)))  # before the table measures it
