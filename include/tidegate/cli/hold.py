"""`tidegate approve` and `tidegate reject`: the decision about a held checkpoint. They need only the database, not the
pipeline's code.
"""

from typing import Annotated

import typer

from tidegate.cli.actions import carry_out_action
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument

IdArgument = Annotated[
    int | None, typer.Argument(metavar="[ID]", help="The checkpoint; by default the one that is held.")
]
CommentOption = Annotated[str | None, typer.Option(help="The reason, recorded with the checkpoint.")]
ByOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="The person who decides; by default the operating system's user.")
]


def approve(
    pipeline: PipelineArgument,
    checkpoint_id: IdArgument = None,
    comment: CommentOption = None,
    by: ByOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Complete a held checkpoint although its data failed validation.

    Its DAG run or continuous run continues; without one, `tidegate run` completes it.
    """
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
    """Abort a held checkpoint.

    None of its rows become visible, and the next checkpoint takes the same data.
    """
    carry_out_action(
        pipeline, lambda operations, id_, actor: operations.reject(id_, actor, checkpoint_id, comment, by), output
    )
