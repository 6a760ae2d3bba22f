"""`python -m flights`: the demonstration, and the commands `up`, `down`, `remove` and `deliver`."""

import signal
import sys

import typer
from rich.console import Console

from flights import run
from flights.layout import Layout
from tidegate.protocol.facts.errors import CheckpointError

app = typer.Typer(help="Tidegate's demonstration.", add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def demo(context: typer.Context) -> None:
    """DAG runs on real data, compared with a batch computation."""
    if context.invoked_subcommand is None and not run.demonstrate(_layout(), _console()):
        raise typer.Exit(1)


@app.command()
def up() -> None:
    """Start Airflow, Postgres and Spark and leave them running."""
    run.up(_layout(), _console())


@app.command()
def down() -> None:
    """Stop Airflow, Postgres and Spark, also if another process started them."""
    run.down(_layout(), _console())


@app.command()
def remove() -> None:
    """Stop Airflow, Postgres and Spark and remove their data."""
    run.remove(_layout(), _console())


@app.command()
def deliver() -> None:
    """Deliver a year of flights and weather for the pipeline to read."""
    run.deliver(_layout(), _console())


def _console() -> Console:
    """Return a console as wide as the terminal. Output to a log is wide enough for the tables."""
    return Console(width=None if sys.stdout.isatty() else 110)


def _layout() -> Layout:
    return Layout.of(run.project())


def main() -> None:
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, frame: sys.exit(128 + number))  # so that every started process is stopped
    try:
        app()
    except CheckpointError as error:
        Console(stderr=True).print(f"{type(error).__name__}: {error}", style="red", markup=False, soft_wrap=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
