"""A DAG that cleans up after pipelines once a day. Each has a task of its own, which logs the retained files."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from airflow.sdk import DAG, BaseOperator, Context, Param
from airflow.sdk.exceptions import AirflowSkipException

from tidegate.airflow.actions import action_of
from tidegate.airflow.dag import TASK_DEFAULTS
from tidegate.airflow.step import airflow_outcome
from tidegate.pipeline.definition import Pipeline
from tidegate.protocol.facts.errors import ConfigurationError, StateIntegrityError
from tidegate.protocol.observing.actions import ActionKind

_PIPELINES = "The pipelines to clean up after."
_DRY_RUN = "Only log the files that are kept and those that would be deleted."


def maintenance_dag(*pipelines: Pipeline, **dag_kwargs: Any) -> DAG:
    """Make the DAG `tidegate_maintenance`, which runs `tidegate clean` once a day.

    Args:
        *pipelines: The pipelines' definitions.
        **dag_kwargs: The arguments of `DAG`.

    Returns:
        The DAG.
    """
    names = [pipeline.name for pipeline in pipelines]
    options: dict[str, Any] = {
        "dag_id": "tidegate_maintenance",
        "schedule": "@daily",
        "catchup": False,  # a run cleans up everything, so a missed one has nothing left to do
        "max_active_runs": 1,
        "tags": ["tidegate"],
        "params": {
            "pipelines": Param(names, type="array", items={"type": "string", "enum": names}, description=_PIPELINES),
            "dry_run": Param(False, type="boolean", description=_DRY_RUN),
        },
        "doc_md": "Deletes old checkpoints and unreferenced files, and reports what each pipeline keeps.",
    } | dag_kwargs
    options["default_args"] = TASK_DEFAULTS | (dag_kwargs.get("default_args") or {})
    with DAG(**options) as dag:
        CleanOperator.partial(
            task_id="clean", pipelines=Definitions(pipelines), map_index_template="{{ task.pipeline }}"
        ).expand(pipeline=names)
    dag.fileloc = sys._getframe(1).f_code.co_filename  # the DAG file, which calls this function; Airflow shows its code
    return dag


class Definitions(Mapping[str, Pipeline]):
    """Pipelines by name. They are shared by copies of the DAG, because a user's pipeline need not support copying."""

    def __init__(self, pipelines: tuple[Pipeline, ...]) -> None:
        self._by_name = {pipeline.name: pipeline for pipeline in pipelines}

    def __getitem__(self, name: str) -> Pipeline:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Definitions":
        return self

    def __repr__(self) -> str:
        return f"Definitions({', '.join(self)})"


class CleanOperator(BaseOperator):
    """Cleans up after one of the pipelines.

    It is skipped if the DAG run's parameter `pipelines` does not name the pipeline. It fails if a retained file is
    damaged; then nothing was deleted.

    Args:
        pipelines: The definitions.
        pipeline: The name of the pipeline.
        **kwargs: The arguments of `BaseOperator`.
    """

    def __init__(self, *, pipelines: Definitions, pipeline: str, **kwargs: Any) -> None:
        super().__init__(do_xcom_push=False, **kwargs)
        self.pipelines = pipelines
        self.pipeline = pipeline

    def execute(self, context: Context) -> None:
        # Imported here: DAG files are parsed often, and the modules that run a step take seconds to import.
        from tidegate.assembly import open_coordinator

        params: Mapping[str, Any] = context["params"]
        if self.pipeline not in params["pipelines"]:
            raise AirflowSkipException(f"This run is not for pipeline {self.pipeline}.")
        with airflow_outcome(context):
            if self.pipeline not in self.pipelines:
                raise ConfigurationError(
                    f"{self.pipeline!r} is not one of {', '.join(self.pipelines)}. "
                    "Nothing was changed. Correct the name."
                )
            cleaning = open_coordinator(self.pipelines[self.pipeline]).cleaning
            report = cleaning.plan() if params["dry_run"] else cleaning.clean(action_of(context, ActionKind.CLEAN))
            for line in report.lines():
                self.log.info("%s", line)
            if report.damage:
                raise StateIntegrityError(" ".join(report.damage_lines()))
