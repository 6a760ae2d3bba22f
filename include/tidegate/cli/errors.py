"""The end of a command with an error: one paragraph and an exit code, and the causes on request."""

from typing import NoReturn

from tidegate.cli.checkpoint_page import failed_expectations_table, report_line
from tidegate.cli.exit_codes import exit_code_of
from tidegate.cli.options import stderr
from tidegate.protocol.facts.errors import CheckpointError, ValidationFailedError
from tidegate.protocol.steps.verdicts import failed_expectations
from tidegate.protocol.text.causes import causes_of


class Wishes:
    """The options before the command. They are set while the command line is parsed."""

    verbose = False


def end(error: CheckpointError, wishes: Wishes) -> NoReturn:
    """Print the error and exit. With `verbose`, also print its causes, nearest first."""
    console = stderr()
    console.print(f"[bold red]{type(error).__name__}[/]", end=" ")
    console.print(str(error), markup=False, highlight=False)
    if isinstance(error, ValidationFailedError):
        tables = failed_expectations_table(failed_expectations(error.verdicts))
        for part in (*tables, *report_line([verdict.docs_path for verdict in error.verdicts])):
            console.print(part)
    if wishes.verbose:
        causes = causes_of(error) or ["No other error was raised; this one is the cause."]
        for cause in causes:
            console.print(f"\nCaused by {cause}", markup=False, highlight=False)
    raise SystemExit(exit_code_of(error)) from None
