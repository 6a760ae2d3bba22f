"""What Airflow shows as a tab of a DAG, and of a DAG run: the checkpoints that it has asked for.

Airflow puts the tabs on every DAG. One that has asked for no checkpoint shows a sentence.
"""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from tidegate.protocol.names import requests_of_run
from tidegate.reading.history_answers import HistoryFilter
from tidegate.ui.auth import ReadableDags
from tidegate.ui.pipeline_pages import now
from tidegate.ui.reading_deps import ReadingsDep
from tidegate.ui.shell import page

routes = APIRouter(prefix="/dags/{dag_id}")


@routes.get("")
def dag(request: Request, readings: ReadingsDep, readable: ReadableDags, dag_id: str) -> HTMLResponse:
    names = _pipelines_of(readings, readable, dag_id)
    found = [(name, readings.history(name, limit=15).rows) for name in names]
    return page(request, "dag.html", dag_id=dag_id, run_id=None, found=found, now=now())


@routes.get("/runs/{run_id:path}")
def dag_run(request: Request, readings: ReadingsDep, readable: ReadableDags, dag_id: str, run_id: str) -> HTMLResponse:
    wanted = HistoryFilter(text=requests_of_run(dag_id, run_id))
    names = _pipelines_of(readings, readable, dag_id)
    found = [(name, rows) for name in names if (rows := readings.history(name, wanted, limit=15).rows)]
    return page(request, "dag.html", dag_id=dag_id, run_id=run_id, found=found, now=now())


def _pipelines_of(readings: ReadingsDep, readable: frozenset[str] | None, dag_id: str) -> list[str]:
    if readable is not None and dag_id not in readable:
        return []
    return [line.pipeline_id for line in readings.pipelines(frozenset({dag_id})).lines if dag_id in line.dags]
