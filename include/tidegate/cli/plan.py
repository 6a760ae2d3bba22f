"""`tidegate plan`: checks before a deployment whether the code can continue from the pipeline's latest checkpoint."""

import typer
from rich.console import Group
from rich.text import Text

from tidegate import assembly
from tidegate.cli.console import plain
from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument, show
from tidegate.cli.tables import Table
from tidegate.documents import plan_models
from tidegate.documents.plan_models import PlannedVertex
from tidegate.ports import SinkCommit
from tidegate.protocol.recovery.changes import ChangePlan

_WHEN = {
    SinkCommit.IN_THE_COMMIT: "shows rows in the commit",
    SinkCommit.AFTER_THE_COMMIT: "shows rows after the commit",
    SinkCommit.AT_LEAST_ONCE: "shows rows after the commit, at least once",
}


def plan(pipeline: PipelineArgument, output: OutputOption = OutputFormat.TABLE) -> None:
    """Compare the pipeline's code with its latest completed checkpoint.

    Shows the parts that stay the same, are new, dropped or migrated, and those that a run would refuse, with the
    solution. Runs no Spark job and changes nothing. Ends with exit code 9 if a run would be refused.
    """
    planned = assembly.open_coordinator(assembly.load_pipeline(pipeline), writes=False).planning.plan()
    show(_answer(planned), output, plan_tables)
    if planned.refuses:
        raise typer.Exit(ExitCode.INCOMPATIBLE)


def _answer(planned: ChangePlan) -> plan_models.ChangePlan:
    return plan_models.ChangePlan(
        pipeline=planned.pipeline.pipeline_id,
        status=planned.pipeline.status.value,
        checkpoint=None if planned.record is None else planned.record.checkpoint_id,
        can_go_on=not planned.refuses,
        summary=planned.summary(),
        vertices=[
            PlannedVertex(
                kind=each.kind.value,
                name=each.name,
                verdict=each.verdict.value,
                changes=list(each.changes),
                way_out=each.way_out or None,
                table=None if each.table is None else each.table.value,
                commits=each.commits,
            )
            for each in planned.vertices
        ],
    )


def plan_tables(plan: plan_models.ChangePlan) -> Group:
    """Return the table that a user decides by. The changes of a vertex wrap in their own column."""
    table = Table("Vertex", "Kind", "Verdict", "What changes", leave=("Kind",), wrap=("What changes",))
    for each in plan.vertices:
        when = [] if each.commits is None else [_WHEN[SinkCommit(each.commits)]]
        lines = [*when, *each.changes, *([each.way_out] if each.way_out else [])]
        table.add_row(each.name, each.kind, each.verdict, Text("\n".join(map(plain, lines))))
    return Group(Text(plan.summary), table)
