"""`tidegate savepoint` and `savepoints`: one is taken or shown, all are listed."""

from typing import Annotated

import typer

from tidegate import assembly
from tidegate.cli import views
from tidegate.cli.checkpoint_page import checkpoint_page
from tidegate.cli.export import FormatOption, SavepointFormat, ToOption, take_savepoint
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument, details, show
from tidegate.documents.checkpoints import checkpoint_document
from tidegate.protocol.errors import ConfigurationError
from tidegate.protocol.records import CheckpointKind
from tidegate.protocol.savepoints import Label

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
    show(details(defined.name, found.checkpoint_id), output, checkpoint_page)


def savepoints(pipeline: PipelineArgument, output: OutputOption = OutputFormat.TABLE) -> None:
    """List the savepoints of a pipeline, oldest first."""
    found = assembly.open_coordinator(assembly.load_pipeline(pipeline), writes=False).savepoints.list()
    show([checkpoint_document(record) for record in found], output, views.savepoints_table)
