"""`tidegate check`: whether a pipeline's definition can run, before anything is read."""

from typing import Any

import typer
from rich.text import Text

from tidegate import assembly
from tidegate.cli.console import plain
from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument, show


def check(pipeline: PipelineArgument, output: OutputOption = OutputFormat.TABLE) -> None:
    """Check the pipeline's definition: columns and types of every stream, what functions return, expectations. Starts
    Spark, and reads no data and no database. Ends with exit code 2 if a run would refuse it."""
    defined = assembly.load_pipeline(pipeline)
    document = {"pipeline": defined.name, "problems": assembly.check_definition(defined)}
    show(document, output, _sentences)
    if document["problems"]:
        raise typer.Exit(ExitCode.USAGE)


def _sentences(document: dict[str, Any]) -> Text:
    problems = document["problems"] or [f"Nothing is wrong with the definition of pipeline {document['pipeline']}."]
    return Text("\n".join(map(plain, problems)))
