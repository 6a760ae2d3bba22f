"""The addresses of all pages. Pure.

`base` is the path at which the app is served, including that of a proxy. `airflow` is the path of Airflow's own pages,
None without Airflow.
"""

from dataclasses import dataclass
from urllib.parse import quote, urlencode


@dataclass(frozen=True, slots=True)
class Links:
    base: str
    airflow: str | None
    static_version: str

    def pipelines(self, **query: object) -> str:
        return f"{self.base}/" + _query(query)

    def pipeline(self, pipeline: str, tab: str = "", **query: object) -> str:
        return f"{self.base}/pipelines/{_segment(pipeline)}" + (f"/{tab}" if tab else "") + _query(query)

    def checkpoint(self, pipeline: str, checkpoint_id: int, part: str = "", **query: object) -> str:
        return self.pipeline(pipeline, f"checkpoints/{checkpoint_id}" + (f"/{part}" if part else ""), **query)

    def metadata(self, pipeline: str, checkpoint_id: int) -> str:
        return f"{self.base}/api/v1/pipelines/{_segment(pipeline)}/checkpoints/{checkpoint_id}/_metadata"

    def plan(self, pipeline: str, request_id: str) -> str:
        """Return the address of a restore's plan."""
        return self.pipeline(pipeline, f"restore-plans/{_segment(request_id)}")

    def action(self, pipeline: str, path: str) -> str:
        return f"{self.base}/api/v1/pipelines/{_segment(pipeline)}/{path}"

    def report(self, docs_path: str) -> str:
        return f"{self.base}/docs/{quote(docs_path)}"

    def static(self, name: str) -> str:
        return f"{self.base}/static/{self.static_version}/{name}"

    def dag(self, dag_id: str) -> str | None:
        return None if self.airflow is None else f"{self.airflow}/dags/{_segment(dag_id)}"

    def dag_run(self, dag_id: str, run_id: str, task_id: str = "") -> str | None:
        """Return the address of the DAG run, or of one of its tasks, which shows its log."""
        if self.airflow is None:
            return None
        task = f"/tasks/{_segment(task_id)}" if task_id else ""
        return f"{self.airflow}/dags/{_segment(dag_id)}/runs/{_segment(run_id)}{task}"


def _segment(name: str) -> str:
    return quote(name, safe="")


def _query(given: dict[str, object]) -> str:
    """Return a query string without empty values."""
    kept = [(name, value) for name, value in given.items() if value not in (None, "", (), [])]
    return "?" + urlencode(kept, doseq=True) if kept else ""
