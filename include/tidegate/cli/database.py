"""`tidegate db …`: the metadata database, and the embedded server, which outlives the command that starts it."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from tidegate import assembly
from tidegate.cli.options import EPILOG, OutputFormat, OutputOption, say, show
from tidegate.cli.tables import Table
from tidegate.documents.command_models import EmbeddedServer
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.protocol.observing.actions import ActionKind
from tidegate.settings import Settings, is_project

if TYPE_CHECKING:
    from rich.console import RenderableType

database = typer.Typer(help="Manage the metadata database and the embedded server.", no_args_is_help=True)


@database.command(epilog=EPILOG)
def upgrade() -> None:
    """Create or migrate the `tidegate` schema.

    Safe to repeat, and to run from several places at once.
    """
    from tidegate.embedded_postgres.locate import locate_database
    from tidegate.postgres.migrate import upgrade as migrate

    migrate(locate_database(owner=True, writes=True), assembly.new_action(ActionKind.UPGRADE))
    say("The database is up to date.")


@database.command(epilog=EPILOG)
def start() -> None:
    """Start this project's embedded server; create it if there is none.

    Commands that write start it themselves.
    """
    from tidegate.embedded_postgres.locate import start_embedded

    directory = _directory()
    if not is_project():
        raise ConfigurationError(
            f"{Settings.from_environment().home} is not a project: it has no pyproject.toml with [tool.tidegate], and "
            "TIDEGATE_HOME is not set. Nothing was started. Create a project with `tidegate init`."
        )
    start_embedded(directory)
    say(f"The embedded server in {directory} is running. `tidegate db stop` stops it.")


@database.command(epilog=EPILOG)
def stop() -> None:
    """Stop this project's embedded server.

    Its data stays. Open connections are closed.
    """
    directory = _directory()
    server = EmbeddedPostgres(directory)
    if not directory.exists() or server.pid() is None:
        say(f"No embedded server is running in {directory}.")
        return
    server.stop()
    say(f"The embedded server in {directory} is stopped. Its data is safe.")


@database.command(epilog=EPILOG)
def status(output: OutputOption = OutputFormat.TABLE) -> None:
    """List this project's embedded server, and all others running on this machine.

    Starts nothing.
    """
    from tidegate.embedded_postgres.listing import running_servers

    ours = _directory()
    servers = [
        EmbeddedServer(directory=str(one.directory), pid=one.pid, port=one.port, this_project=one.of == ours)
        for one in running_servers()
    ]
    if ours.exists() and not any(server.this_project for server in servers):
        servers.insert(0, EmbeddedServer(directory=str(ours), pid=None, port=None, this_project=True))
    show(servers, output, servers_table)


def _directory() -> Path:
    from tidegate.embedded_postgres.locate import embedded_directory

    return embedded_directory(Settings.from_environment())


def servers_table(servers: list[EmbeddedServer]) -> "RenderableType":
    if not servers:
        return Text("No embedded server is running on this machine, and this directory has none.")
    table = Table("", "Embedded server", "Process", "Port", leave=(), wrap=("Embedded server",))
    for server in servers:
        pid, port = server.pid or "stopped", server.port or ""
        table.add_row("*" if server.this_project else "", Text(server.directory), str(pid), str(port))
    return table
