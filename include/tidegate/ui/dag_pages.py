"""The tabs of a DAG and of a DAG run in Airflow, with the checkpoints that it has requested.

Airflow shows the tabs on every DAG. For a DAG that has requested no checkpoint, they contain a sentence.
"""

from fastapi import Request
from fastapi.responses import HTMLResponse

from tidegate.reading.history_answers import HistoryFilter
from tidegate.ui.asking import ReadingsDep
from tidegate.ui.pipeline_pages import now
from tidegate.ui.shared import PageRoutes
from tidegate.ui.shell import page

routes = PageRoutes(prefix="/dags/{dag_id}")

_LATEST = 15


@routes.get("")
def dag(request: Request, readings: ReadingsDep, dag_id: str) -> HTMLResponse:
    names = readings.pipelines_of_dag(dag_id)
    found = [(name, readings.history(name, limit=_LATEST).history) for name in names]
    return page(request, "dag.html", dag_id=dag_id, run_id=None, found=found, now=now())


@routes.get("/runs/{run_id:path}")
def dag_run(request: Request, readings: ReadingsDep, dag_id: str, run_id: str) -> HTMLResponse:
    checkpoints = readings.checkpoints_of_run(dag_id, run_id)
    found = []
    for name in dict.fromkeys(name for name, _ in checkpoints):
        ids = {checkpoint_id for pipeline, checkpoint_id in checkpoints if pipeline == name}
        rows = readings.history(name, HistoryFilter(), before=max(ids) + 1, limit=max(ids) - min(ids) + 1).history
        found.append((name, [row for row in rows if row.id in ids]))
    return page(request, "dag.html", dag_id=dag_id, run_id=run_id, found=found, now=now())
