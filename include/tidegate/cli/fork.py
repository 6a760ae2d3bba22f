"""`tidegate fork`: shows a plan, asks for confirmation, and starts a new pipeline with the state of another one."""

from typing import Annotated, Any

import typer
from rich.console import Group
from rich.filesize import decimal
from rich.text import Text

from tidegate import assembly
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument, YesOption, say, show
from tidegate.cli.tables import Table
from tidegate.cli.views import returning_states_table
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.documents.restores import returning_state_document
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.protocol.observing.actions import ActionKind
from tidegate.protocol.recovery.fork import ForkPlan
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.reading.checkpoint_rows import checkpoint_of
from tidegate.settings import absolute

NewArgument = Annotated[
    str, typer.Argument(metavar="NEW", help="The new pipeline: module:attribute, or a listed name.")
]


def fork(
    pipeline: PipelineArgument,
    new: NewArgument,
    checkpoint_id: Annotated[
        int | None, typer.Option("--checkpoint", metavar="ID", help="Fork from this checkpoint or savepoint.")
    ] = None,
    savepoint: Annotated[
        str | None, typer.Option("--savepoint", metavar="NAME", help="Fork from the savepoint of this name or number.")
    ] = None,
    latest: Annotated[bool, typer.Option("--latest", help="Fork from the latest completed checkpoint.")] = False,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="URL", help="Fork from the canonical savepoint in this directory.")
    ] = None,
    relocate: Annotated[
        bool, typer.Option("--relocate", help="Accept that sources read the same data in another place.")
    ] = False,
    allow_non_restored_state: Annotated[
        bool, typer.Option("--allow-non-restored-state", help="Drop state that the new definition has no operator for.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")] = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Start a new pipeline with the state and positions of another one.

    Use it to try new code. Shows a plan first. The new pipeline's sinks write to places of their own; the other
    pipeline keeps running and is not changed.
    """
    original, defined = assembly.load_pipeline(pipeline), assembly.load_pipeline(new)
    where = _where(original, checkpoint_id, savepoint, latest, from_)
    coordinator = assembly.open_coordinator(defined)
    planned = coordinator.forking.plan(compile_graph(original), where)
    show(plan_document(planned.plan), output, plan_tables)
    if dry_run:
        return
    origin_text = planned.plan.fork.describe()
    if not yes:
        typer.confirm(f"Fork {defined.name} from {origin_text}?", abort=True, err=True)
    accepted = Accepted(non_restored_state=allow_non_restored_state, moved=relocate)
    coordinator.fork(planned, accepted, assembly.new_action(ActionKind.FORK, origin=origin_text, copied_from=from_))
    say(f"Pipeline {defined.name} was forked from {origin_text}. `tidegate run {new}` continues from there.")


def _where(
    original: Pipeline, checkpoint_id: int | None, savepoint: str | None, latest: bool, from_: str | None
) -> ToCheckpoint | str:
    """Return the checkpoint to fork from, or the canonical savepoint's absolute path or URL.

    Raises:
        ConfigurationError: Unless exactly one was given.
    """
    if (checkpoint_id is not None) + (savepoint is not None) + (from_ is not None) + latest != 1:
        raise ConfigurationError(
            "Exactly one option must name the origin. Nothing was changed. Give --savepoint NAME, --checkpoint ID, "
            "--latest, or --from URL for the directory of a canonical savepoint."
        )
    if from_ is not None:
        return absolute(from_)
    if savepoint is not None:
        checkpoint_id = assembly.open_coordinator(original).savepoints.find(savepoint).checkpoint_id
    return ToCheckpoint(checkpoint_id)


def plan_document(plan: ForkPlan) -> dict[str, Any]:
    """Return the plan as JSON; sizes are bytes."""
    fork = plan.fork
    return {
        "pipeline": plan.pipeline_id,
        "forked_from": {"pipeline": fork.pipeline_id, "checkpoint": fork.checkpoint_id, "savepoint": fork.savepoint},
        "checkpoint": checkpoint_of(plan.checkpoint),
        "copied_from": plan.url,
        "moved": [str(moved) for moved in plan.moved],
        "sources": [
            {"source": each.source, "taken_over": each.is_known, "files": each.pieces, "bytes": each.bytes}
            for each in plan.sources
        ],
        "operators": [returning_state_document(each) for each in plan.operators],
        "new_operators": list(plan.new),
        "sinks": [{"sink": each.sink, "filled_from_state": each.is_filled} for each in plan.sinks],
    }


def plan_tables(document: dict[str, Any]) -> Group:
    """Return the tables that a user decides by."""
    sources = Table("Source", "Continues after", title="Sources", leave=(), wrap=("Continues after",))
    for each in document["sources"]:
        sources.add_row(each["source"], _position(each))
    operators = returning_states_table(document["operators"], "is copied")
    for name in document["new_operators"]:
        operators.add_row(name, "starts empty", "", "")
    sinks = Table("Sink", "Table", title="Sinks", leave=(), wrap=("Table",))
    for each in document["sinks"]:
        what = "filled from the state by the first run" if each["filled_from_state"] else "starts empty"
        sinks.add_row(each["sink"], what)
    return Group(Text(_summary(document)), *(each for each in (sources, operators, sinks) if each.row_count))


def _position(source: dict[str, Any]) -> str:
    if not source["taken_over"]:
        return "nothing; it is new and read from its beginning"
    if source["files"] is None:
        return "its position in the checkpoint"
    return f"{source['files']:,} files, {decimal(source['bytes'])}"


def _summary(document: dict[str, Any]) -> str:
    original = document["forked_from"]
    sentences = [
        f"Pipeline {document['pipeline']} begins with checkpoint {original['checkpoint']} of {original['pipeline']}, "
        f"copied from {document['copied_from']}."
    ]
    sentences += [f"Moved: {moved}." for moved in document["moved"]]
    return " ".join(sentences)
