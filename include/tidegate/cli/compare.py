"""`tidegate compare`: the differences between the tables and state of two pipelines."""

from contextlib import closing, suppress
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from tidegate import assembly
from tidegate.cli.console import plain
from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument, show
from tidegate.cli.tables import Table
from tidegate.coordination.recovery.operator_state import find_kept
from tidegate.documents import command_models
from tidegate.documents.command_models import ComparedPart, Side
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.graph import Graph, compile_graph
from tidegate.protocol.facts.errors import OperatorNotFoundError
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.recovery.comparison import Compared, Comparison, Rows


def compare(
    first: PipelineArgument,
    second: PipelineArgument,
    sample: Annotated[int, typer.Option(min=0, help="The number of differing rows to show.")] = 3,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Compare the tables and state of two pipelines.

    Tables are compared as readers see them now, by the names of their sinks; state at the latest checkpoints. Ends with
    exit code 11 if they differ.
    """
    pipelines = [assembly.load_pipeline(name) for name in (first, second)]
    comparison = _compared(pipelines[0], pipelines[1], sample)
    show(_answer(comparison), output, comparison_table)
    if not comparison.is_same:
        raise typer.Exit(ExitCode.DIFFERENT)


def _compared(first: Pipeline, second: Pipeline, sample: int) -> Comparison:
    """Compare the current tables of two pipelines, and the state of their operators at their latest completed
    checkpoints. `sample` is the number of differing rows to show.

    Raises the errors of `tidegate.state.read`, and `ConfigurationError` if Spark cannot be started.
    """
    ours, theirs = compile_graph(first), compile_graph(second)
    with closing(assembly.open_store()) as store:
        records = find_kept(store, first.name), find_kept(store, second.name)
    states = _states(ours, records[0]), _states(theirs, records[1])

    from tidegate.spark.comparison import compare_states, compare_tables
    from tidegate.spark.session.sessions import SparkSettings, open_session
    from tidegate.spark.state_source import register_state_source

    session = open_session(SparkSettings.from_environment())
    register_state_source(session)
    tables = compare_tables(session, ours, theirs, sample)
    return Comparison(*records, (*tables, *compare_states(session, *states, sample)))


def _states(graph: Graph, record: CheckpointRecord) -> dict[str, dict[str, str]]:
    """Return the options to read the state of each operator that has some at this checkpoint."""
    found: dict[str, dict[str, str]] = {}
    for vertex in graph.keyed:
        with suppress(OperatorNotFoundError):
            found[vertex.name] = assembly.state_options(
                record.pipeline_id, vertex.name, checkpoint=record.checkpoint_id
            )
    return found


def _answer(comparison: Comparison) -> command_models.Comparison:
    sides = (comparison.first, comparison.second)
    return command_models.Comparison(
        same=comparison.is_same,
        pipelines=[Side(pipeline=side.pipeline_id, checkpoint=side.checkpoint_id) for side in sides],
        compared=[_part(each) for each in comparison.compared],
    )


def _part(compared: Compared) -> ComparedPart:
    rows = compared.rows
    return ComparedPart(
        part=compared.part,
        name=compared.name,
        likeness=compared.likeness,
        columns_of_one_side=[] if rows is None else list(rows.columns),
        rows=[] if rows is None else [rows.first, rows.second],
    )


def comparison_table(found: command_models.Comparison) -> Any:
    names = [_text(f"{side.pipeline} at {side.checkpoint}") for side in found.pipelines]
    table = Table("Part", "Name", "", leave=("Part",), wrap=("Name",))
    for name in names:
        table.add_column(name)
    samples: list[Text] = []
    for each in found.compared:
        numbers, part = [_number(rows) for rows in each.rows] or ["", ""], each.part.lower()
        table.add_row(part, _text(each.name), each.likeness.lower().replace("_", " "), *numbers)
        if columns := each.columns_of_one_side:
            samples.append(_text(f"{part} {each.name}, only on one side: {', '.join(columns)}"))
        for side, rows in zip(found.pipelines, each.rows, strict=False):
            samples += [_text(f"{part} {each.name}, only {side.pipeline}: {row}") for row in rows.sample]
    return Group(table, *samples)


def _number(rows: Rows) -> str:
    return f"{rows.number:,}" + (f" ({rows.surplus:,} only here)" if rows.surplus else "")


def _text(value: str) -> Text:
    return Text(plain(value))
