"""`tidegate doctor`: what this machine has of what a project needs."""

import typer
from rich.text import Text

from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.options import OutputFormat, OutputOption, show
from tidegate.cli.tables import Table
from tidegate.documents.command_models import Finding

_MARKS = {True: "ok", False: "WRONG", None: "-"}


def doctor(output: OutputOption = OutputFormat.TABLE) -> None:
    """Examine Python, Java, Spark, Airflow, database, schema, connections, storage, plugin and clock: each is ok, or
    has the command that mends it. It starts nothing, and ends with 2 if something is wrong."""
    from tidegate.project.doctor import examine  # it imports what other commands need not

    findings = examine()
    show(list(map(Finding.model_validate, findings)), output, findings_table)
    if any(finding.ok is False for finding in findings):
        raise typer.Exit(ExitCode.USAGE)


def findings_table(findings: list[Finding]) -> Table:
    table = Table("", "What", "Found", leave=(), wrap=("Found",))
    for finding in findings:
        said = Text(finding.says)
        if finding.ok is not True and finding.mend:
            said.append(f"\n{finding.mend}", style="bold")
        table.add_row(_MARKS[finding.ok], finding.what, said)
    return table
