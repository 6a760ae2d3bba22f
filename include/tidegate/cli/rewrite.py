"""`tidegate rewrite`: the state of a checkpoint as a new savepoint, in the key groups and columns of the definition."""

from typing import Annotated

import typer
from rich.filesize import decimal

from tidegate import assembly
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument, say_or_show
from tidegate.documents.command_models import Rewritten


def rewrite(
    pipeline: PipelineArgument,
    to: Annotated[str, typer.Option("--to", metavar="URL", help="The new savepoint's directory, a path or URL.")],
    checkpoint_id: Annotated[
        int | None, typer.Option("--checkpoint", metavar="ID", help="Of this checkpoint; by default the latest.")
    ] = None,
    savepoint: Annotated[
        str | None, typer.Option("--savepoint", metavar="NAME", help="Of the savepoint of this name or number.")
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="URL", help="Of the canonical savepoint in this directory.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the new savepoint is called.")] = None,
    note: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Write the state of a checkpoint to a new canonical savepoint, as the code has it now: with its max_parallelism
    and its columns. Nothing else changes; `restore --from` goes back to it."""
    from tidegate.savepoint.edits import edit

    defined = assembly.load_pipeline(pipeline)
    begun = edit(defined, savepoint=savepoint, checkpoint=checkpoint_id, from_url=from_)
    written = begun.write(to, name=name, note=note)
    done = Rewritten(
        pipeline=defined.name,
        checkpoint=written.checkpoint_id,
        url=written.url,
        bytes=written.bytes,
        max_parallelism=defined.max_parallelism,
    )
    say_or_show(
        f"The state of pipeline {defined.name} at checkpoint {written.checkpoint_id} is complete in {written.url}, "
        f"with max_parallelism {defined.max_parallelism}: {decimal(written.bytes)}. To go on from it, run `tidegate "
        f"restore {defined.name} --from {written.url}`.",
        done,
        output,
    )
