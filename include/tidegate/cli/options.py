"""The arguments and output that all commands share."""

from contextlib import closing
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console

from tidegate import assembly
from tidegate.cli.console import PlainConsole
from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import PipelineNotFoundError
from tidegate.reading.answer import to_json
from tidegate.reading.checkpoint_answers import WholeCheckpoint

EPILOG = (
    "Exit codes: 0 done, 1 checkpoint aborted, 2 usage or definition, 3 validation failed, 4 request dropped, "
    "5 not found, 6 database unavailable, 7 outcome of a commit unknown, 8 pipeline failed or ended, "
    "9 definition incompatible, 10 damage found, 11 pipelines differ, 12 held for approval, 13 stale or failed, "
    "14 in doubt, 130 interrupted."
)


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"


PipelineArgument = Annotated[str, typer.Argument(help=r"module:attribute, or a name from \[tool.tidegate.pipelines].")]
OutputOption = Annotated[
    OutputFormat, typer.Option("--output", "-o", help="table, or json as described in docs/schemas/.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def name_of(pipeline: str) -> str:
    """Return the name of a pipeline given by `PipelineArgument`."""
    return assembly.load_pipeline(pipeline).name if ":" in pipeline else pipeline


def known_pipeline(pipeline: str) -> tuple[CheckpointStore, str]:
    """Return the store, and the name of a pipeline that has checkpoints in it.

    Raises:
        PipelineNotFoundError: If the pipeline has no checkpoints.
    """
    store, name = assembly.open_store(), name_of(pipeline)
    if name not in store.pipelines():
        raise PipelineNotFoundError(
            f"Pipeline {name!r} has no checkpoints in this database. `tidegate pipelines` lists those that have."
        )
    return store, name


def show(document: Any, output: OutputFormat, table: Any) -> None:
    """Print a document on standard output, as JSON or as the table that `table` returns for it."""
    if output is OutputFormat.JSON:
        typer.echo(to_json(document))
    else:
        PlainConsole().print(table(document))


def details(pipeline_id: str, checkpoint_id: int) -> WholeCheckpoint:
    """Return a checkpoint with every subtask.

    Raises:
        CheckpointNotFoundError: If there is no such checkpoint.
    """
    with closing(assembly.open_readings()) as readings:
        return readings.whole_checkpoint(pipeline_id, checkpoint_id)


def say(text: str) -> None:
    """Print a sentence for the user on standard error. It may contain text that users have written."""
    stderr().print(text, markup=False, highlight=False, soft_wrap=True)


def say_or_show(text: str, document: Any, output: OutputFormat) -> None:
    """Print the result of a command: a sentence for a user, or the document for a program."""
    if output is OutputFormat.JSON:
        typer.echo(to_json(document))
    else:
        say(text)


def stderr() -> Console:
    return PlainConsole(stderr=True)
