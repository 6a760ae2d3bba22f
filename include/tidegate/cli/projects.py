"""`tidegate init` and `tidegate pipelines`: a user's own project."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from tidegate import assembly
from tidegate.cli.options import OutputFormat, OutputOption, say, show
from tidegate.cli.tables import Table
from tidegate.cli.views import moment
from tidegate.documents.command_models import KnownPipeline
from tidegate.protocol.facts.errors import ConfigurationError, StoreUnavailableError

if TYPE_CHECKING:
    from rich.console import RenderableType


def init(
    directory: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="The project's directory; by default this one.")
    ] = Path(),
    name: Annotated[
        str | None, typer.Option(help="The name of the package in include/; by default the directory's.")
    ] = None,
    postgres: Annotated[bool, typer.Option("--postgres", help="Add tables in Postgres.")] = False,
) -> None:
    """Create a project with a pipeline that runs, its DAG, and a crash test."""
    from tidegate.project.scaffold import begin

    for path in begin(directory, name, postgres):
        typer.echo(path.relative_to(directory.resolve()))
    there = "" if directory.resolve() == Path.cwd() else f"cd {directory} && "
    say(f"Run it: {there}tidegate run example")


def pipelines(output: OutputOption = OutputFormat.TABLE) -> None:
    """List the pipelines that this project registers, and those in the database."""
    registered = assembly.registered_pipelines()
    try:
        with closing(assembly.open_store()) as store:
            known = {name: store.pipeline(name) for name in store.pipelines()}
            latest = {name: next(iter(store.history(name, 1)), None) for name in known}
    except (ConfigurationError, StoreUnavailableError) as error:
        say(str(error))
        known, latest = {}, {}
    lines = []
    for name in sorted(registered.keys() | known.keys()):
        record, last = known.get(name), latest.get(name)
        line = KnownPipeline(
            pipeline=name,
            registered=registered.get(name),
            status=None if record is None else record.status.value,
            latest_checkpoint=None if last is None else last.checkpoint_id,
            latest_status=None if last is None else last.status.value,
            triggered_at=None if last is None else last.triggered_at,
        )
        lines.append(line)
    show(lines, output, _table)


def _table(lines: list[KnownPipeline]) -> "RenderableType":
    if not lines:
        return Text("No pipeline is registered under [tool.tidegate.pipelines], and the database has none.")
    table = Table(
        "Pipeline", "Registered as", "Status", "Latest checkpoint",
        leave=("Registered as",), wrap=("Latest checkpoint",),
    )  # fmt: skip
    for line in lines:
        last = "none"
        if line.latest_checkpoint is not None:
            last = f"{line.latest_checkpoint} {line.latest_status}, {moment(line.triggered_at)}"
        table.add_row(Text(line.pipeline), Text(line.registered or "not here"), line.status, last)
    return table
