"""`tidegate check`: whether a pipeline's definition can run, before anything is read."""

import typer
from rich.text import Text

from tidegate import assembly
from tidegate.cli.console import plain
from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument, show
from tidegate.documents.command_models import Checked


def check(pipeline: PipelineArgument, output: OutputOption = OutputFormat.TABLE) -> None:
    """Check the pipeline's definition: columns and types of every stream, what functions return, expectations. Starts
    Spark and reads no data. Of a table in a database it asks the columns, if that can be reached. Ends with exit code
    2 if a run would refuse it."""
    defined = assembly.load_pipeline(pipeline)
    checked = Checked(pipeline=defined.name, problems=assembly.check_definition(defined))
    show(checked, output, _sentences)
    if checked.problems:
        raise typer.Exit(ExitCode.USAGE)


def _sentences(checked: Checked) -> Text:
    problems = checked.problems or [f"Nothing is wrong with the definition of pipeline {checked.pipeline}."]
    return Text("\n".join(map(plain, problems)))
