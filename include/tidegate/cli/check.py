"""`tidegate check`: checks whether a pipeline's definition can run, before any data is read."""

import typer
from rich.text import Text

from tidegate import assembly
from tidegate.cli.console import plain
from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument, show
from tidegate.documents.command_models import Checked


def check(pipeline: PipelineArgument, output: OutputOption = OutputFormat.TABLE) -> None:
    """Check the pipeline's definition without reading data.

    The check covers the columns and types of every stream, the results of functions, and the expectations. It starts
    Spark. It reads the columns of tables in databases that can be reached. Ends with exit code 2 if a run would be
    refused.
    """
    defined = assembly.load_pipeline(pipeline)
    checked = Checked(pipeline=defined.name, problems=assembly.check_definition(defined))
    show(checked, output, _sentences)
    if checked.problems:
        raise typer.Exit(ExitCode.USAGE)


def _sentences(checked: Checked) -> Text:
    problems = checked.problems or [f"The definition of pipeline {checked.pipeline} is correct."]
    return Text("\n".join(map(plain, problems)))
