"""`tidegate savepoint` and `savepoints`: take or show one savepoint, or list all."""

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

NameOption = Annotated[str | None, typer.Option(help="The name of the savepoint; by default it has only a number.")]
NoteOption = Annotated[str | None, typer.Option(help="The purpose of the savepoint.")]


def savepoint(
    pipeline: PipelineArgument,
    wanted: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The savepoint to show.")] = None,
    name: NameOption = None,
    note: NoteOption = None,
    request_id: Annotated[
        str | None,
        typer.Option(help="The id of the request. Repeated requests with the same id count once."),
    ] = None,
    format_: FormatOption = SavepointFormat.NATIVE,
    to: ToOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Take a savepoint, or with a NAME show one.

    A new savepoint comes before other requests and is kept until you dispose of it. NAME is the name or number of an
    existing one.
    """
    if wanted is None:
        defined = assembly.load_pipeline(pipeline)
        take_savepoint(defined, request_id, CheckpointKind.SAVEPOINT, output, Label(name, note), format_, to)
        return
    if name or note or request_id or to or format_ is not SavepointFormat.NATIVE:
        raise ConfigurationError(
            "--name, --note, --format, --to and --request-id are for a new savepoint. Nothing was triggered. To "
            f"take one, leave {wanted!r} out. To rename an existing one, use `tidegate rename "
            f"{pipeline} {wanted} NEW`."
        )
    name, there = _savepoints_of(pipeline)
    show(details(name, there.find(wanted).checkpoint_id), output, checkpoint_page)


def savepoints(pipeline: PipelineArgument, output: OutputOption = OutputFormat.TABLE) -> None:
    """List the savepoints of a pipeline, oldest first."""
    _, there = _savepoints_of(pipeline)
    show(list(map(checkpoint_of, there.list())), output, views.savepoints_table)


def _savepoints_of(pipeline: str) -> tuple[str, Savepoints]:
    """Return a pipeline's name and savepoints: by a name in the database, without the pipeline's code; else by its
    definition, which may not have run yet.
    """
    if ":" not in pipeline:
        with suppress(PipelineNotFoundError):
            return pipeline, assembly.open_operations(pipeline, writes=False).savepoints
    defined = assembly.load_pipeline(pipeline)
    return defined.name, assembly.open_coordinator(defined, writes=False).savepoints
