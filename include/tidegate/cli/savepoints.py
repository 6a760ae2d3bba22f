"""`tidegate savepoint` and `savepoints`: one is taken or shown, all are listed."""

from contextlib import suppress
from typing import Annotated

import typer

from tidegate import assembly
from tidegate.cli import views
from tidegate.cli.checkpoint_page import checkpoint_page
from tidegate.cli.export import FormatOption, SavepointFormat, ToOption, take_savepoint
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument, details, show
from tidegate.coordination.recovery.savepoints import Savepoints
from tidegate.protocol.facts.errors import ConfigurationError, PipelineNotFoundError
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.facts.savepoints import Label
from tidegate.reading.checkpoint_rows import checkpoint_of

NameOption = Annotated[str | None, typer.Option(help="What the savepoint is called; otherwise by its number.")]
NoteOption = Annotated[str | None, typer.Option(help="What it is for.")]


def savepoint(
    pipeline: PipelineArgument,
    wanted: Annotated[str | None, typer.Argument(metavar="[NAME]")] = None,
    name: NameOption = None,
    note: NoteOption = None,
    request_id: Annotated[
        str | None,
        typer.Option(help="Id of the request. A request repeated with the same id is not carried out twice."),
    ] = None,
    format_: FormatOption = SavepointFormat.NATIVE,
    to: ToOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """With the NAME or number of a savepoint, show it. Without, take one: it comes before other requests and is kept
    until you dispose of it."""
    if wanted is None:
        defined = assembly.load_pipeline(pipeline)
        take_savepoint(defined, request_id, CheckpointKind.SAVEPOINT, output, Label(name, note), format_, to)
        return
    if name or note or request_id or to or format_ is not SavepointFormat.NATIVE:
        raise ConfigurationError(
            "--name, --note, --format, --to and --request-id are for a new savepoint: leave "
            f"{wanted!r} out. Nothing was triggered. To call an existing one differently, use `tidegate rename "
            f"{pipeline} {wanted} NEW`."
        )
    name, there = _savepoints_of(pipeline)
    show(details(name, there.find(wanted).checkpoint_id), output, checkpoint_page)


def savepoints(pipeline: PipelineArgument, output: OutputOption = OutputFormat.TABLE) -> None:
    """List the savepoints of a pipeline, oldest first."""
    _, there = _savepoints_of(pipeline)
    show(list(map(checkpoint_of, there.list())), output, views.savepoints_table)


def _savepoints_of(pipeline: str) -> tuple[str, Savepoints]:
    """By a name that the database knows, without the pipeline's code; else by a definition, which may not have run."""
    if ":" not in pipeline:
        with suppress(PipelineNotFoundError):
            return pipeline, assembly.open_operations(pipeline, writes=False).savepoints
    defined = assembly.load_pipeline(pipeline)
    return defined.name, assembly.open_coordinator(defined, writes=False).savepoints
