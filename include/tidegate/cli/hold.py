"""`tidegate approve` and `tidegate reject`: a person decides about a checkpoint that is held. Neither needs the
pipeline's code, only the database."""

from getpass import getuser
from typing import Annotated

import typer

from tidegate import assembly
from tidegate.cli.options import PipelineArgument, known_pipeline, say
from tidegate.coordination.hold import Holds
from tidegate.protocol.errors import ConfigurationError
from tidegate.protocol.records import CheckpointRecord, Decision

IdArgument = Annotated[
    int | None, typer.Argument(metavar="[ID]", help="The checkpoint; without it, the one that is held.")
]
CommentOption = Annotated[str | None, typer.Option(help="Why; it is recorded with the checkpoint.")]
ByOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Who decides; by default the user of the operating system.")
]


def approve(
    pipeline: PipelineArgument,
    checkpoint_id: IdArgument = None,
    comment: CommentOption = None,
    by: ByOption = None,
) -> None:
    """Let a held checkpoint complete although its data broke a rule. Whoever drives it goes on; without Airflow,
    `tidegate run` completes it."""
    record = _holds(pipeline).approve(checkpoint_id, _name(by), comment)
    _say(record, f"`tidegate run {record.pipeline_id}` completes it, unless a DAG run or a continuous run does.")


def reject(
    pipeline: PipelineArgument,
    checkpoint_id: IdArgument = None,
    comment: CommentOption = None,
    by: ByOption = None,
) -> None:
    """Abort a held checkpoint. Nothing of it becomes visible, and the next checkpoint takes the same data."""
    record = _holds(pipeline).reject(checkpoint_id, _name(by), comment)
    _say(record, "Nothing of it became visible; the next checkpoint takes the same data.")


def _holds(pipeline: str) -> Holds:
    _, name = known_pipeline(pipeline)
    return assembly.open_holds(name)


def _name(by: str | None) -> str:
    if by is not None:
        return by
    try:
        return getuser()
    except (KeyError, OSError) as error:  # a container's user may have no name
        raise ConfigurationError(
            "This user of the operating system has no name, so nobody would be recorded as who decided. Nothing was "
            "changed. Say who decides with --by NAME."
        ) from error


def _say(record: CheckpointRecord, then: str) -> None:
    decided = record.decided
    assert decided is not None
    what = f"was {decided.decision.lower()} by {decided.by} at {decided.at:%Y-%m-%d %H:%M:%S} UTC"
    now = f"It is {record.status}." if decided.decision is Decision.APPROVED and record.completed_at else then
    say(f"Checkpoint {record.checkpoint_id} of pipeline {record.pipeline_id} {what}. {now}")
