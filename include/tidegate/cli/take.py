"""A checkpoint or savepoint that a command requests, takes and shows."""

import uuid

import typer

from tidegate import assembly
from tidegate.cli import views
from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.options import OutputFormat, show, stderr
from tidegate.cli.run import RunOutcome, run_checkpoint
from tidegate.documents.command_models import DeliveredSink, Dropped, Taken
from tidegate.pipeline.definition import Pipeline
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.facts.savepoints import UNLABELLED, Label
from tidegate.protocol.observing.actions import kind_of_request
from tidegate.reading.checkpoint_rows import checkpoint_of


def new_request_by_hand() -> str:
    """Return the id of a request that is never repeated, unless a user gives it again."""
    return f"manual:{uuid.uuid4()}"


def carry_out(
    defined: Pipeline,
    request_id: str,
    kind: CheckpointKind,
    output: OutputFormat,
    *,
    wait: bool = True,
    drain: bool = False,
    label: Label = UNLABELLED,
) -> RunOutcome:
    """Take a checkpoint from the trigger to the notification. Exit with DROPPED if the request was dropped."""
    coordinator = assembly.open_coordinator(defined)
    assembly.check_installed(coordinator.graph)
    action = assembly.new_action(kind_of_request(kind, drain), request=request_id, name=label.name, note=label.note)
    outcome = run_checkpoint(
        coordinator,
        defined,
        lambda: coordinator.trigger(request_id, kind=kind, wait=wait, drain=drain, label=label, action=action),
        stderr(),
    )
    if outcome.dropped is not None:
        show_outcome(outcome, output)
        raise typer.Exit(ExitCode.DROPPED)
    return outcome


def show_outcome(outcome: RunOutcome, output: OutputFormat) -> None:
    show(run_document(outcome), output, views.run_table)


def run_document(outcome: RunOutcome) -> Taken | Dropped:
    if outcome.dropped is not None:
        return Dropped(dropped=outcome.dropped.reason.name, message=outcome.dropped.message)
    assert outcome.record is not None
    sinks = [DeliveredSink.model_validate(each) for each in outcome.delivered]
    return Taken(**dict(checkpoint_of(outcome.record)), sinks=sinks)
