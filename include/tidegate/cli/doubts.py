"""`tidegate doubts`: completed checkpoints that not every table shows yet."""

from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from typing import Annotated

import typer
from rich.console import Group
from rich.markup import escape
from rich.text import Text

from tidegate import assembly
from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.options import OutputFormat, OutputOption, known_pipeline, show
from tidegate.cli.tables import Pairs
from tidegate.cli.views import moment
from tidegate.protocol.text.durations import duration, written
from tidegate.reading.pipeline_answers import DoubtAt


def doubts(
    pipeline: Annotated[
        str | None,
        typer.Argument(help=r"module:attribute, or a name from \[tool.tidegate.pipelines]; by default all pipelines."),
    ] = None,
    longer_than: Annotated[
        str, typer.Option(help="End with exit code 14 if a checkpoint has been in doubt for longer, such as '30 s'.")
    ] = "1 min",
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show completed checkpoints that not every table shows yet.

    For each, shows the reason, the duration, the rows that readers see meanwhile, and advice. Changes nothing. Monitors
    can use the exit code.
    """
    bound = duration(longer_than)
    name = None if pipeline is None else known_pipeline(pipeline)[1]
    with closing(assembly.open_readings()) as readings:
        found = readings.doubts(name)
    show(list(found), output, doubt_list)
    if any(timedelta(milliseconds=doubt.duration) > bound for doubt in found):
        raise typer.Exit(ExitCode.IN_DOUBT)


def doubt_list(found: Sequence[DoubtAt]) -> Group:
    """Return a paragraph for each doubt."""
    if not found:
        return Group(Text("Nothing is in doubt. Every table shows the latest completed checkpoint."))
    return Group(*(part for doubt in found for part in (_title(doubt), _described(doubt), Text())))


def _title(doubt: DoubtAt) -> Text:
    what = "completed" if doubt.restore is None else "restored"
    return Text.from_markup(
        f"[bold]Checkpoint {doubt.checkpoint_id}[/] of {escape(doubt.pipeline_id)}, {what} {moment(doubt.since)}, "
        f"in doubt for {written(timedelta(seconds=doubt.duration // 1000))}"
    )


def _described(doubt: DoubtAt) -> Pairs:
    return Pairs([("Why", doubt.why), ("Readers", doubt.readers), ("What to do", doubt.advice)])
