"""`tidegate savepoint` and what their owner does with savepoints: list, rename and dispose of them."""

from typing import Annotated

import typer

from tidegate import assembly
from tidegate.cli import views
from tidegate.cli.export import FormatOption, SavepointFormat, ToOption, take_savepoint
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument, YesOption, details, say, show
from tidegate.documents.checkpoints import checkpoint_document
from tidegate.protocol.errors import ConfigurationError
from tidegate.protocol.records import CheckpointKind
from tidegate.protocol.savepoints import Label

NameOption = Annotated[str | None, typer.Option(help="What the savepoint is called; otherwise by its number.")]
NoteOption = Annotated[str | None, typer.Option(help="What it is for.")]
SavepointArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name or number of a savepoint.")]


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
    defined = assembly.load_pipeline(pipeline)
    if wanted is None:
        take_savepoint(defined, request_id, CheckpointKind.SAVEPOINT, output, Label(name, note), format_, to)
        return
    if name or note or request_id or to or format_ is not SavepointFormat.NATIVE:
        raise ConfigurationError(
            "--name, --note, --format, --to and --request-id are for a new savepoint: leave "
            f"{wanted!r} out. Nothing was triggered. To call an existing one differently, use `tidegate rename "
            f"{defined.name} {wanted} NEW`."
        )
    found = assembly.open_coordinator(defined).savepoints.find(wanted)
    show(details(defined.name, found.checkpoint_id), output, views.details_tables)


def savepoints(pipeline: PipelineArgument, output: OutputOption = OutputFormat.TABLE) -> None:
    """List the savepoints of a pipeline, oldest first."""
    found = assembly.open_coordinator(assembly.load_pipeline(pipeline)).savepoints.list()
    show([checkpoint_document(record) for record in found], output, views.savepoints_table)


def rename(
    pipeline: PipelineArgument,
    wanted: SavepointArgument,
    new_name: Annotated[str | None, typer.Argument(metavar="[NEW]")] = None,
    note: Annotated[str | None, typer.Option(help="Another note.")] = None,
) -> None:
    """Call a savepoint differently, or replace its note."""
    if new_name is None and note is None:
        raise ConfigurationError("Say what the savepoint is called from now on, or give a --note. Nothing was changed.")
    defined = assembly.load_pipeline(pipeline)
    record = assembly.open_coordinator(defined).savepoints.relabel(wanted, Label(new_name, note))
    say(f"Savepoint {record.checkpoint_id} of pipeline {defined.name} is called {record.name or record.checkpoint_id}.")


def dispose(pipeline: PipelineArgument, wanted: SavepointArgument, yes: YesOption = False) -> None:
    """Give a savepoint up. What nothing else refers to is deleted; the tables stay as they are."""
    defined = assembly.load_pipeline(pipeline)
    coordinator = assembly.open_coordinator(defined)
    record = coordinator.savepoints.find(wanted)
    if not yes:
        typer.confirm(f"Dispose of savepoint {record.name or record.checkpoint_id} for good?", abort=True, err=True)
    coordinator.dispose(str(record.checkpoint_id))
    say(f"Savepoint {record.name or record.checkpoint_id} of pipeline {defined.name} was disposed of.")
