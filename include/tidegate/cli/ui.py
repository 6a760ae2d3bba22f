"""`tidegate ui`: the Checkpoints pages without Airflow."""

from contextlib import closing
from typing import Annotated

import typer

from tidegate import assembly
from tidegate.cli.options import say
from tidegate.protocol.facts.errors import ConfigurationError


def ui(port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 chooses a free one.")] = 0) -> None:
    """Show the Checkpoints pages on this machine until you press Ctrl-C.

    The printed address contains the token that opens them. Keep it secret.
    """
    from tidegate.ui.local_server import serve  # a web server takes a while to import

    with closing(assembly.open_readings()) as readings:
        try:
            serve(readings, port, _announce)
        except OSError as error:
            raise ConfigurationError(
                f"Port {port} cannot be used ({error.strerror}). Nothing was started. Give another one with --port, or "
                "leave it out to use a free one."
            ) from error


def _announce(address: str) -> None:
    typer.echo(address)
    say("Open this address in a browser. Press Ctrl-C to stop.")
