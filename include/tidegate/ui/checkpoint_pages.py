"""The pages about one checkpoint: its phases, operators, verdicts and failure, and its files."""

from typing import Annotated

from fastapi import Path, Query, Request
from fastapi.responses import HTMLResponse

from tidegate.ui.asking import ReadingsDep
from tidegate.ui.auth import RightsDep
from tidegate.ui.dag_runs import StartableDep
from tidegate.ui.drawing import draw_spans
from tidegate.ui.offers import offers_of_checkpoint
from tidegate.ui.pipeline_pages import Text
from tidegate.ui.shared import PageRoutes
from tidegate.ui.shell import page

routes = PageRoutes(prefix="/pipelines/{pipeline}/checkpoints/{checkpoint}")

CheckpointNumber = Annotated[int, Path(ge=1, le=2**62)]
#: The tasks of `checkpoint_dag` with the most useful logs.
_LOGS = ("snapshot", "validate", "finalize")


@routes.get("")
def one_checkpoint(
    request: Request,
    readings: ReadingsDep,
    rights: RightsDep,
    startable: StartableDep,
    pipeline: str,
    checkpoint: CheckpointNumber,
    operator: Text = "",
    after: Annotated[int, Query(ge=-1, le=2**31)] = -1,
) -> HTMLResponse:
    """Show a checkpoint. The subtasks of `operator` are shown, from the index after `after` on."""
    details = readings.checkpoint(pipeline, checkpoint)
    opened = operator if operator in details.tasks else None
    return page(
        request, "checkpoint.html", pipeline=pipeline, details=details, spans=draw_spans(details.phases, details.now),
        opened=opened, log_tasks=_LOGS, offers=offers_of_checkpoint(pipeline, details, startable),
        rights=rights,
        subtasks=readings.subtasks(pipeline, checkpoint, opened, after) if opened else None,
    )  # fmt: skip


@routes.get("/files")
def files(
    request: Request, readings: ReadingsDep, pipeline: str, checkpoint: CheckpointNumber, after: Text = ""
) -> HTMLResponse:
    found = readings.files(pipeline, checkpoint, after or None)
    return page(request, "files.html", pipeline=pipeline, checkpoint_id=checkpoint, files=found, after=after)
