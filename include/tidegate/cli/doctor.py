"""`tidegate doctor`: what this machine has of what a project needs."""

from dataclasses import asdict
from typing import Any

import typer
from rich.text import Text

from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.options import OutputFormat, OutputOption, show
from tidegate.cli.tables import Table

_MARKS = {True: "ok", False: "WRONG", None: "-"}


def doctor(output: OutputOption = OutputFormat.TABLE) -> None:
    """Examine Python, Java, Spark, Airflow, database, schema, connections, storage, plugin and clock: each is ok, or
    has the command that mends it. It starts nothing, and ends with 2 if something is wrong."""
    from tidegate.project.doctor import examine  # it imports what other commands need not

    findings = examine()
    show([asdict(finding) for finding in findings], output, findings_table)
    if any(finding.ok is False for finding in findings):
        raise typer.Exit(ExitCode.USAGE)


def findings_table(documents: list[dict[str, Any]]) -> Table:
    table = Table("", "What", "Found", leave=(), wrap=("Found",))
    for document in documents:
        said = Text(document["says"])
        if document["ok"] is not True and document["mend"]:
            said.append(f"\n{document['mend']}", style="bold")
        table.add_row(_MARKS[document["ok"]], document["what"], said)
    return table
