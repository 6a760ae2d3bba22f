"""`tidegate abort`, `suspend`, `resume`, `rename` and `dispose`: user actions that need no pipeline code.

With the name of a pipeline in the database, they work even if its code is broken or missing. Rows that its sinks have
staged are then deleted by its next run, or by `tidegate clean`.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated
from uuid import uuid4

import typer

from tidegate import assembly
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument, YesOption, say_or_show
from tidegate.coordination.operations import PipelineOperations
from tidegate.documents.audit import answer_of
from tidegate.protocol.facts.errors import (
    CheckpointError,
    CheckpointNotFoundError,
    ConfigurationError,
    PipelineNotFoundError,
)
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.observing.actions import ActionAnswer, Actor

log = logging.getLogger("tidegate")

SavepointArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name or number of a savepoint.")]


def abort(
    pipeline: PipelineArgument,
    checkpoint_id: Annotated[
        int | None, typer.Argument(metavar="[ID]", help="The checkpoint; by default the one in progress.")
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Abort the checkpoint in progress, or the one with this ID.

    The pipeline keeps running, and committed data stays. A completed checkpoint cannot be aborted.
    """
    carry_out_action(pipeline, lambda operations, id_, actor: operations.abort(id_, actor, checkpoint_id), output)


def suspend(pipeline: PipelineArgument, output: OutputOption = OutputFormat.TABLE) -> None:
    """Stop taking checkpoints until the pipeline is resumed.

    A checkpoint in progress is aborted. Committed data stays.
    """
    carry_out_action(pipeline, lambda operations, id_, actor: operations.suspend(id_, actor), output)


def resume(pipeline: PipelineArgument, output: OutputOption = OutputFormat.TABLE) -> None:
    """Resume taking checkpoints, from the latest completed one.

    Use it after `suspend`, after `stop`, or after too many failures.
    """
    carry_out_action(pipeline, lambda operations, id_, actor: operations.resume(id_, actor), output)


def rename(
    pipeline: PipelineArgument,
    wanted: SavepointArgument,
    new_name: Annotated[str | None, typer.Argument(metavar="[NEW]", help="The new name.")] = None,
    note: Annotated[str | None, typer.Option(help="The new note.")] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Rename a savepoint, or replace its note."""
    if new_name is None and note is None:
        raise ConfigurationError("Neither a new name nor a --note was given. Nothing was changed. Give one of them.")
    label = Label(new_name, note)
    carry_out_action(pipeline, lambda operations, id_, actor: operations.rename(id_, actor, wanted, label), output)


def dispose(
    pipeline: PipelineArgument,
    wanted: SavepointArgument,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Dispose of a savepoint.

    Files that nothing else refers to are deleted. The tables stay as they are.
    """

    def act(operations: PipelineOperations, id_: str, actor: Actor) -> ActionAnswer:
        chosen = wanted
        with suppress(CheckpointNotFoundError):  # refused below, where the refusal is recorded
            record = operations.savepoints.find(wanted)
            chosen, shown = str(record.checkpoint_id), record.name or record.checkpoint_id
            if not yes:
                typer.confirm(f"Dispose of savepoint {shown} for good?", abort=True, err=True)
        return operations.dispose(id_, actor, chosen)

    carry_out_action(pipeline, act, output)


def carry_out_action(
    pipeline: str, act: Callable[[PipelineOperations, str, Actor], ActionAnswer], output: OutputFormat
) -> None:
    """Carry out a user action, then delete files. A refusal is raised; an error while deleting is only logged."""
    operations, delete = _opened(pipeline)
    request_id = str(uuid4())
    answer = act(operations, request_id, assembly.command_actor()).require_done()
    try:
        delete()
    except CheckpointError as error:
        log.warning("Cleaning up after pipeline %s is left to the next run: %s", operations.pipeline_id, error)
    say_or_show(answer.sentence, answer_of(request_id, answer), output)


def _opened(pipeline: str) -> tuple[PipelineOperations, Callable[[], None]]:
    """Return the operations on a pipeline, and a function that deletes its garbage."""
    if ":" not in pipeline:
        try:
            operations = assembly.open_operations(pipeline)
        except PipelineNotFoundError:  # a registered pipeline may not have run yet
            pass
        else:
            return operations, lambda: _delete(operations)
    coordinator = assembly.open_coordinator(assembly.load_pipeline(pipeline))
    return coordinator.operations, coordinator.clean


def _delete(operations: PipelineOperations) -> None:
    """Delete garbage, including staged rows if the pipeline's code can be loaded."""
    try:
        defined = assembly.load_pipeline(operations.pipeline_id)
    except Exception as error:  # any error: the action was carried out without the code
        log.debug("The code of pipeline %s cannot be loaded: %r", operations.pipeline_id, error)
        operations.delete_queued()
        return
    if defined.name == operations.pipeline_id:
        assembly.open_coordinator(defined).clean()
    else:
        operations.delete_queued()
