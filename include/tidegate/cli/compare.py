"""`tidegate compare`: in what tables and state two pipelines differ."""

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from tidegate import assembly
from tidegate.cli.console import plain
from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument, show
from tidegate.cli.tables import Table
from tidegate.protocol.recovery.comparison import Compared, Comparison

Document = dict[str, Any]


def compare(
    first: PipelineArgument,
    second: PipelineArgument,
    sample: Annotated[int, typer.Option(min=0, help="How many of the rows that differ to show.")] = 3,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Compare two pipelines: their tables as readers see them now, by the names of their sinks, and the state of their
    operators at their latest checkpoints. Ends with 11 if they differ."""
    pipelines = [assembly.load_pipeline(name) for name in (first, second)]
    comparison = assembly.compare_pipelines(pipelines[0], pipelines[1], sample)
    show(comparison_document(comparison), output, comparison_table)
    if not comparison.is_same:
        raise typer.Exit(ExitCode.DIFFERENT)


def comparison_document(comparison: Comparison) -> Document:
    sides = (comparison.first, comparison.second)
    return {
        "same": comparison.is_same,
        "pipelines": [{"pipeline": side.pipeline_id, "checkpoint": side.checkpoint_id} for side in sides],
        "compared": [_document(each) for each in comparison.compared],
    }


def _document(compared: Compared) -> Document:
    rows = compared.rows
    return {
        "part": compared.part,
        "name": compared.name,
        "likeness": compared.likeness,
        "columns_of_one_side": [] if rows is None else list(rows.columns),
        "rows": [] if rows is None else [asdict(rows.first), asdict(rows.second)],
    }


def comparison_table(document: Document) -> Any:
    names = [_text(f"{side['pipeline']} at {side['checkpoint']}") for side in document["pipelines"]]
    table = Table("Part", "Name", "", leave=("Part",), wrap=("Name",))
    for name in names:
        table.add_column(name)
    samples: list[Text] = []
    for each in document["compared"]:
        numbers = [_number(rows) for rows in each["rows"]] or ["", ""]
        table.add_row(each["part"].lower(), _text(each["name"]), each["likeness"].lower().replace("_", " "), *numbers)
        if columns := each["columns_of_one_side"]:
            samples.append(_text(f"{each['part'].lower()} {each['name']}, only on one side: {', '.join(columns)}"))
        for side, rows in zip(document["pipelines"], each["rows"], strict=False):
            shown = [f"{each['part'].lower()} {each['name']}, only {side['pipeline']}: {row}" for row in rows["sample"]]
            samples += map(_text, shown)
    return Group(table, *samples)


def _number(rows: Document) -> str:
    return f"{rows['number']:,}" + (f" ({rows['surplus']:,} only here)" if rows["surplus"] else "")


def _text(value: str) -> Text:
    return Text(plain(value))
