"""`tidegate doctor`: checks this machine for everything that a project needs."""

import typer
from rich.text import Text

from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.options import OutputFormat, OutputOption, show
from tidegate.cli.tables import Table
from tidegate.documents.command_models import Finding

_MARKS = {True: "ok", False: "WRONG", None: "-"}


def doctor(output: OutputOption = OutputFormat.TABLE) -> None:
    """Check this machine for everything that the project needs.

    Checks Python, Java, Spark, Airflow, database, schema, connections, storage, plugin and clock, and shows the command
    that fixes each problem. Starts nothing. Ends with exit code 2 if a check fails.
    """
    from tidegate.project.doctor import examine  # imports packages that other commands do not need

    findings = examine()
    show(list(map(Finding.model_validate, findings)), output, findings_table)
    if any(finding.ok is False for finding in findings):
        raise typer.Exit(ExitCode.USAGE)


def findings_table(findings: list[Finding]) -> Table:
    table = Table("", "What", "Found", leave=(), wrap=("Found",))
    for finding in findings:
        text = Text(finding.says)
        if finding.ok is not True and finding.mend:
            text.append(f"\n{finding.mend}", style="bold")
        table.add_row(_MARKS[finding.ok], finding.what, text)
    return table
