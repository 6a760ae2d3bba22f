"""`tidegate recover`: shows the checkpoints on storage, asks for confirmation, and records them in the database."""

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
        typer.Option("--from", metavar="URL", help="The checkpoint storage, if TIDEGATE_STORAGE is not set to it."),
    ] = None,
    include_doubtful: Annotated[
        list[int] | None,
        typer.Option(metavar="ID", help="Count a checkpoint without a marker as completed."),
    ] = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Remove rows of checkpoints that cannot be recovered from the tables.")
    ] = False,
    relocate: Annotated[
        bool, typer.Option("--relocate", help="Accept that sources or sinks were moved, with their tables.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")] = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Record a pipeline's checkpoints again after the database was lost.

    Reads them from the checkpoint storage, where nothing is changed. Shows a plan first.
    """
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
    text = f"Pipeline {defined.name} was recovered to checkpoint {newest}."
    if from_ is not None:
        text += f" From now on, set TIDEGATE_STORAGE={from_}."
    say(text)


def plan_document(plan: RecoveryPlan, storage: str) -> dict[str, Any]:
    """Return the plan as JSON; sizes are bytes."""
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
    """Return a checkpoint as it will be recorded."""
    record = recovered.record
    snapshots = {subtask: record_.snapshot for subtask, record_ in recovered.metadata.subtasks.items()}
    state_size, checkpointed_size = sizes(record.checkpoint_id, snapshots)
    completed = record.moved(
        status=Status.COMPLETED,
        completed_at=None if recovered.marker is None else recovered.marker.completed_at,
        state_size=state_size,
        checkpointed_size=checkpointed_size,
    )
    return checkpoint_of(completed).model_dump(mode="json") | {"was_in_doubt": recovered.marker is None}


def plan_tables(document: dict[str, Any]) -> Group:
    """Return the tables that a user decides by."""
    recovered = Table("ID", "Type", "Full Size", title="Checkpoints to recover")
    for each in document["checkpoints"]:
        type_ = each["checkpoint_type"] + (", was in doubt" if each["was_in_doubt"] else "")
        recovered.add_row(str(each["id"]), type_, decimal(each["state_size"]))
    left = Table("ID", "Reason", title="Not recovered", wrap=("Reason",))
    for each in (*document["in_doubt"], *document["not_recovered"]):
        left.add_row(str(each["id"]), Text(each["reason"]))
    return Group(Text(_summary(document)), recovered, *([left] if left.row_count else []))


def _summary(document: dict[str, Any]) -> str:
    newest = document["latest_checkpoint"]
    sentences = [f"Pipeline {document['pipeline']} continues from checkpoint {newest} on {document['storage']}."]
    if in_doubt := document["in_doubt"]:
        ids = ", ".join(str(each["id"]) for each in in_doubt)
        sentences.append(f"In doubt, and left out unless --include-doubtful names them: {ids}.")
    if lost := document["lost_checkpoints"]:
        ids = ", ".join(map(str, lost))
        sentences.append(f"Lost, and to be removed from the tables with --withdraw: {ids}.")
    sentences += [f"Moved: {moved}." for moved in document["moved"]]
    return " ".join(sentences)
