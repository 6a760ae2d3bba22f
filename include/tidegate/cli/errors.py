"""How a command ends with an error: one paragraph and an exit code, and what caused it for those who ask."""

from typing import NoReturn

from tidegate.cli.checkpoint_page import judged_badly, report_line
from tidegate.cli.exit_codes import exit_code_of
from tidegate.cli.options import stderr
from tidegate.protocol.facts.errors import CheckpointError, ValidationFailedError
from tidegate.protocol.steps.verdicts import failed_expectations
from tidegate.protocol.text.causes import causes_of


class Wishes:
    """What was asked of the whole command line, before the command. Filled in while it is read."""

    verbose = False


def end(error: CheckpointError, wishes: Wishes) -> NoReturn:
    """What happened, where, what is safe, what next; with `verbose` also what it came from, nearest first."""
    console = stderr()
    console.print(f"[bold red]{type(error).__name__}[/]", end=" ")
    console.print(str(error), markup=False, highlight=False)
    if isinstance(error, ValidationFailedError):
        tables = judged_badly(failed_expectations(error.verdicts))
        for part in (*tables, *report_line([verdict.docs_path for verdict in error.verdicts])):
            console.print(part)
    if wishes.verbose:
        causes = causes_of(error) or ["Nothing else was raised: the error is the cause."]
        for cause in causes:
            console.print(f"\nCaused by {cause}", markup=False, highlight=False)
    raise SystemExit(exit_code_of(error)) from None
