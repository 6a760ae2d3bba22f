"""`tidegate approve` and `tidegate reject`: a person decides about a checkpoint that is held. Neither needs the
pipeline's code, only the database."""

from typing import Annotated

import typer

from tidegate.cli.actions import carry_out_action
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument

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
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Let a held checkpoint complete although its data broke a rule. Whoever drives it goes on; without Airflow,
    `tidegate run` completes it."""
    carry_out_action(
        pipeline, lambda operations, id_, actor: operations.approve(id_, actor, checkpoint_id, comment, by), output
    )


def reject(
    pipeline: PipelineArgument,
    checkpoint_id: IdArgument = None,
    comment: CommentOption = None,
    by: ByOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Abort a held checkpoint. Nothing of it becomes visible, and the next checkpoint takes the same data."""
    carry_out_action(
        pipeline, lambda operations, id_, actor: operations.reject(id_, actor, checkpoint_id, comment, by), output
    )
