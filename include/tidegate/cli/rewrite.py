"""`tidegate rewrite`: writes the state of a checkpoint to a new savepoint, with the definition's key groups and
columns.
"""

from typing import Annotated

import typer
from rich.filesize import decimal

from tidegate import assembly
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument, say_or_show
from tidegate.documents.command_models import Rewritten


def rewrite(
    pipeline: PipelineArgument,
    to: Annotated[str, typer.Option("--to", metavar="URL", help="The directory of the new savepoint, a path or URL.")],
    checkpoint_id: Annotated[
        int | None, typer.Option("--checkpoint", metavar="ID", help="Read this checkpoint; by default the latest.")
    ] = None,
    savepoint: Annotated[
        str | None, typer.Option("--savepoint", metavar="NAME", help="Read the savepoint of this name or number.")
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="URL", help="Read the canonical savepoint in this directory.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The name of the new savepoint.")] = None,
    note: Annotated[str | None, typer.Option(help="The purpose of the new savepoint.")] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Write the state of a checkpoint to a new canonical savepoint.

    The new savepoint has the max_parallelism and columns of the current code. Nothing else changes. `restore --from`
    restores it.
    """
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
        f"with max_parallelism {defined.max_parallelism}: {decimal(written.bytes)}. To continue from it, run `tidegate "
        f"restore {defined.name} --from {written.url}`.",
        done,
        output,
    )
