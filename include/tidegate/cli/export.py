"""A savepoint that a command takes, and writes to a directory of its own if it is canonical."""

import uuid
from dataclasses import replace
from enum import StrEnum
from time import perf_counter
from typing import Annotated

import typer
from rich.filesize import decimal

from tidegate import assembly
from tidegate.cli.options import OutputFormat, say
from tidegate.cli.run import RunOutcome
from tidegate.cli.take import carry_out, new_request_by_hand, show_outcome
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.definition import Pipeline
from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.observing.actions import ActionKind
from tidegate.settings import absolute

_CANONICAL = "canonical:"  # the prefix of request ids that only the same command continues


class SavepointFormat(StrEnum):
    NATIVE = "native"
    CANONICAL = "canonical"


FormatOption = Annotated[
    SavepointFormat,
    typer.Option("--format", help="canonical also writes it to a directory of its own, complete and relocatable."),
]
ToOption = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="URL",
        help="The directory of a canonical savepoint, a path or URL; by default next to the checkpoints.",
    ),
]


def take_savepoint(
    defined: Pipeline,
    request_id: str | None,
    kind: CheckpointKind,
    output: OutputFormat,
    label: Label,
    format_: SavepointFormat,
    to: str | None,
    *,
    drain: bool = False,
) -> None:
    """Take a savepoint and show it. If the command was interrupted while it wrote a canonical one, repeating it
    finishes that one.
    """
    wait = kind is CheckpointKind.SAVEPOINT
    if format_ is SavepointFormat.NATIVE:
        if to is not None:
            raise ConfigurationError("--to needs --format canonical. Nothing was triggered. Add it, or leave --to out.")
        request = request_id or _new_request(kind, new_request_by_hand())
        show_outcome(carry_out(defined, request, kind, output, wait=wait, drain=drain, label=label), output)
        return
    coordinator, location = assembly.open_coordinator(defined), None if to is None else absolute(to)
    coordinator.exporting.require_possible(location)
    begun = _begun(coordinator, defined, kind, label, request_id)
    if begun is not None and begun.status is not Status.IN_PROGRESS:
        outcome = RunOutcome(begun)
    else:
        new = _new_request(kind, f"{_CANONICAL}{uuid.uuid4()}")
        request = begun.request_id if begun is not None else request_id or new
        outcome = carry_out(defined, request, kind, output, wait=wait, drain=drain, label=label)
    assert outcome.record is not None
    show_outcome(replace(outcome, record=_written(coordinator, defined, outcome.record, location)), output)


def _begun(
    coordinator: CheckpointCoordinator, defined: Pipeline, kind: CheckpointKind, label: Label, request_id: str | None
) -> CheckpointRecord | None:
    """Return the savepoint that an earlier run of the same command began: the one of this name, or the newest that is
    not written yet.
    """
    if label.name is not None:
        return coordinator.savepoints.named(label.name)
    store = assembly.open_store()
    pipeline, newest = store.pipeline(defined.name), store.history(defined.name, 1)
    if request_id is not None or not newest or newest[0].kind is not kind:
        return None
    record = newest[0]
    is_open = record.status is Status.COMPLETED and record.exported_at is None and record.abandoned_by is None
    if kind is CheckpointKind.SYNC_SAVEPOINT:
        is_stopped = pipeline is not None and pipeline.status is PipelineStatus.FINISHED
        return record if is_open and is_stopped else None
    is_ours = record.request_id.startswith(_CANONICAL)
    return record if is_ours and (is_open or record.status is Status.IN_PROGRESS) else None


def _new_request(kind: CheckpointKind, by_hand: str) -> str:
    return f"stop:{uuid.uuid4()}" if kind is CheckpointKind.SYNC_SAVEPOINT else by_hand


def _written(
    coordinator: CheckpointCoordinator, defined: Pipeline, record: CheckpointRecord, location: str | None
) -> CheckpointRecord:
    began = perf_counter()
    action = assembly.new_action(ActionKind.EXPORT, checkpoint=record.checkpoint_id, to=location)
    begun = coordinator.exporting.begin(str(record.checkpoint_id), location, action)
    if begun.exported_at is None:
        begun = coordinator.exporting.export(record.checkpoint_id, assembly.open_region(defined))
    name = begun.name or begun.checkpoint_id
    sentence = f"Savepoint {name} of pipeline {defined.name} is complete in {begun.location}: "
    say(f"{sentence}{decimal(begun.exported_size or 0)}, in {perf_counter() - began:.1f} s.")
    return begun
