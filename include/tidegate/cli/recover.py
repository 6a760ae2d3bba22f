"""`tidegate recover`: shows what is on the checkpoint storage, asks, and records it in the database."""

from typing import Annotated, Any

import typer
from rich.console import Group
from rich.filesize import decimal
from rich.text import Text

from tidegate import assembly
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument, YesOption, say, show
from tidegate.cli.tables import Table
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.observing.actions import ActionKind
from tidegate.protocol.recovery.lost_database import AcceptedLosses, Recovered, RecoveryPlan, require_losses_accepted
from tidegate.protocol.steps.finalize import sizes
from tidegate.reading.checkpoint_rows import checkpoint_of


def recover(
    pipeline: PipelineArgument,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="URL", help="The checkpoint storage, if it is not where TIDEGATE_STORAGE says."),
    ] = None,
    include_doubtful: Annotated[
        list[int] | None,
        typer.Option(metavar="ID", help="A checkpoint without a marker that is to count as completed."),
    ] = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Take rows of checkpoints that cannot be recovered out of the tables.")
    ] = False,
    relocate: Annotated[
        bool, typer.Option("--relocate", help="Sources or sinks were moved on purpose, with their tables.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what is there and change nothing.")] = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Record a pipeline's checkpoints again from its checkpoint storage, after the database was lost. First shows what
    is there. Nothing on storage is changed."""
    defined = assembly.load_pipeline(pipeline)
    opened = assembly.open_recovery(defined, from_)
    plan = opened.plan(include_doubtful or ())
    document = plan_document(plan, opened.url)
    show(document, output, plan_tables)
    if dry_run:
        return
    accepted = AcceptedLosses(withdraw, relocate)
    require_losses_accepted(plan, accepted)
    newest = document["latest_checkpoint"]
    if not yes:
        typer.confirm(f"Recover {defined.name} to checkpoint {newest}?", abort=True, err=True)
    details = {"from": from_, "include_doubtful": include_doubtful, "withdraw": withdraw, "relocate": relocate}
    opened.recover(plan, accepted, assembly.new_action(ActionKind.RECOVER, **details))
    said = f"Pipeline {defined.name} was recovered to checkpoint {newest}."
    if from_ is not None:
        said += f" From now on, set TIDEGATE_STORAGE={from_}."
    say(said)


def plan_document(plan: RecoveryPlan, storage: str) -> dict[str, Any]:
    """The plan as JSON; sizes are bytes."""
    return {
        "pipeline": plan.pipeline_id,
        "storage": storage,
        "latest_checkpoint": plan.latest.record.checkpoint_id,
        "checkpoints": [_checkpoint(recovered) for recovered in plan.checkpoints],
        "in_doubt": [{"id": each.checkpoint_id, "reason": each.reason} for each in plan.unrecovered if each.in_doubt],
        "not_recovered": [
            {"id": each.checkpoint_id, "had_completed": each.had_completed, "reason": each.reason}
            for each in plan.unrecovered
            if not each.in_doubt
        ],
        "lost_checkpoints": plan.lost,
        "moved": [str(moved) for moved in plan.moved],
        "last_checkpoint_id": max(plan.numbers.checkpoint_id, plan.latest.record.checkpoint_id),
    }


def _checkpoint(recovered: Recovered) -> dict[str, Any]:
    """As it will be recorded."""
    record = recovered.record
    snapshots = {subtask: known.snapshot for subtask, known in recovered.metadata.subtasks.items()}
    state_size, checkpointed_size = sizes(record.checkpoint_id, snapshots)
    completed = record.moved(
        status=Status.COMPLETED,
        completed_at=None if recovered.marker is None else recovered.marker.completed_at,
        state_size=state_size,
        checkpointed_size=checkpointed_size,
    )
    return checkpoint_of(completed).model_dump(mode="json") | {"was_in_doubt": recovered.marker is None}


def plan_tables(document: dict[str, Any]) -> Group:
    """What a person decides by."""
    found = Table("ID", "Type", "Full Size", title="Checkpoints to be recovered")
    for each in document["checkpoints"]:
        type_ = each["checkpoint_type"] + (", was in doubt" if each["was_in_doubt"] else "")
        found.add_row(str(each["id"]), type_, decimal(each["state_size"]))
    left = Table("ID", "Why not", title="Not recovered", wrap=("Why not",))
    for each in (*document["in_doubt"], *document["not_recovered"]):
        left.add_row(str(each["id"]), Text(each["reason"]))
    return Group(Text(_summary(document)), found, *([left] if left.row_count else []))


def _summary(document: dict[str, Any]) -> str:
    newest = document["latest_checkpoint"]
    said = [f"Pipeline {document['pipeline']} goes on from checkpoint {newest} on {document['storage']}."]
    if in_doubt := document["in_doubt"]:
        ids = ", ".join(str(each["id"]) for each in in_doubt)
        said.append(f"In doubt, and left out unless --include-doubtful names them: {ids}.")
    if lost := document["lost_checkpoints"]:
        ids = ", ".join(map(str, lost))
        said.append(f"Lost, and to be taken out of the tables with --withdraw: {ids}.")
    said += [f"Moved: {moved}." for moved in document["moved"]]
    return " ".join(said)
