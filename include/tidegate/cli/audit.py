"""`tidegate audit`: users' requests, with time, origin and answer."""

from typing import Annotated

import typer
from rich.text import Text

from tidegate import assembly
from tidegate.cli.options import OutputFormat, OutputOption, name_of, show
from tidegate.cli.tables import Table
from tidegate.cli.views import moment
from tidegate.documents.audit import AuditLine, audit_line
from tidegate.protocol.facts.errors import PipelineNotFoundError
from tidegate.protocol.observing.actions import AnswerStatus


def audit(
    pipeline: Annotated[
        str | None, typer.Argument(metavar="[PIPELINE]", help="A pipeline; by default all, and the database itself.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The number of entries to show, newest first.")] = 20,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show what users have requested, and the answers.

    The list has requests made by hand, in Airflow, or by triggering a DAG run, including refused ones.
    """
    store, name = assembly.open_store(), None if pipeline is None else name_of(pipeline)
    if name is not None and store.pipeline(name) is None:
        raise PipelineNotFoundError(
            f"There is no pipeline {name!r} in this database. `tidegate pipelines` lists those it has."
        )
    records = store.audit(name, limit)
    show(list(map(audit_line, records)), output, audit_table)


def audit_table(lines: list[AuditLine]) -> Table:
    """Return a table that fits 80 columns: text that is too wide wraps in its own column."""
    table = Table("When", "Who", "What", "Answer", leave=(), wrap=("Who", "Answer"))
    for each in lines:
        who = f"{each.actor.name}\n{each.actor.origin}"
        what = f"{each.kind}\n{each.pipeline or ''}".rstrip()
        answer = each.sentence if each.status is AnswerStatus.DONE else f"{each.status}: {each.sentence}"
        table.add_row(moment(each.at), Text(who), Text(what), Text(_shortened(answer)))
    return table


def _shortened(text: str, longest: int = 300) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
