"""A DAG that restores pipelines, for the Checkpoints page. A run started by its form only shows the plan."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Asset, BaseOperator, Context, Param
from airflow.sdk.exceptions import AirflowSkipException

from tidegate.airflow.assets import sink_asset
from tidegate.airflow.planned_restore import carry_out
from tidegate.airflow.step import airflow_outcome
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.vertices import SinkVertex
from tidegate.protocol.facts.errors import ConfigurationError, IllegalRequestError
from tidegate.protocol.recovery.restore_plan import RestorePlan
from tidegate.settings import absolute
from tidegate.ui.urls import RESTORES

if TYPE_CHECKING:
    from tidegate.coordination.coordinator import CheckpointCoordinator
    from tidegate.coordination.recovery.restore import Target

_TO = "The target: a checkpoint's number, a savepoint's name, `latest`, or `undo` to undo the last restore."
_FROM = "Instead of a target: the directory of a canonical savepoint, a path or URL."
_PLAN = "Filled in by the Checkpoints page, for a restore that was requested there. Leave it empty."


def restore_dag(*pipelines: Pipeline, **dag_kwargs: Any) -> DAG:
    """Make the DAG `tidegate_restore`, which restores pipelines for the Checkpoints page.

    Args:
        *pipelines: The pipelines' definitions.
        **dag_kwargs: The arguments of `DAG`.

    Returns:
        The DAG. It has no schedule.
    """
    names = [pipeline.name for pipeline in pipelines]
    tags = dag_kwargs.pop("tags", ["tidegate"])
    options: dict[str, Any] = {
        "dag_id": "tidegate_restore",
        "max_active_runs": 1,
        "tags": [*tags, RESTORES],
        "params": {
            "pipeline": Param(names[0] if len(names) == 1 else None, type="string", enum=names),
            "to": Param(None, type=["null", "string"], description=_TO),
            "from": Param(None, type=["null", "string"], description=_FROM),
            "plan": Param(None, type=["null", "string"], description=_PLAN),
        },
        "doc_md": "Restores an earlier checkpoint: state, positions of sources, and tables.",
    } | dag_kwargs
    with DAG(schedule=None, **options) as dag:
        RestoreOperator(task_id="restore", pipelines=pipelines)
    dag.fileloc = sys._getframe(1).f_code.co_filename  # the DAG file, which calls this function; Airflow shows its code
    return dag


class RestoreOperator(BaseOperator):
    """Restores a pipeline as planned on the Checkpoints page.

    Without a plan of the page it only shows the effect of a restore, and is skipped: every user who may trigger a DAG
    can fill in its form, and a restore requires more rights. Its asset events report the rewound tables: one for each
    sink, with `{"checkpoint_id", "restored"}`.

    Args:
        pipelines: The definitions from which the DAG run's parameter `pipeline` chooses.
        **kwargs: The arguments of `BaseOperator`.
    """

    def __init__(self, *, pipelines: tuple[Pipeline, ...], **kwargs: Any) -> None:
        kwargs.setdefault("outlets", [sink for pipeline in pipelines for sink in _assets(pipeline).values()])
        super().__init__(do_xcom_push=False, retries=0, **kwargs)
        self.pipelines = {pipeline.name: pipeline for pipeline in pipelines}

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Share the pipelines, as in `CheckpointTask`: a user's pipeline need not support copying."""
        memo[id(self.pipelines)] = self.pipelines
        return super().__deepcopy__(memo)

    def execute(self, context: Context) -> None:
        # Imported here: DAG files are parsed often, and the modules that run a step take seconds to import.
        from tidegate.assembly import open_coordinator

        params: Mapping[str, Any] = context["params"]
        with airflow_outcome(context):
            pipeline = self.pipelines.get(str(params["pipeline"]))
            if pipeline is None:
                raise ConfigurationError(
                    f"The parameter pipeline is {params['pipeline']!r}, but must be one of "
                    f"{', '.join(self.pipelines)}. Nothing was changed. Correct it."
                )
            if params.get("plan"):
                done = carry_out(open_coordinator(pipeline), str(params["plan"]), context)
                self._announce(context, pipeline, done.checkpoint_id, done.plan)
                return
            if params.get("dry_run") is False:
                raise IllegalRequestError(
                    f"A form cannot restore pipeline {pipeline.name}, because every user who may trigger this DAG can "
                    "fill it in, and a restore requires more rights. Nothing was changed. Restore on the Checkpoints "
                    f"page, which checks the right, or with `tidegate restore {pipeline.name}` where its code is."
                )
            self._show(open_coordinator(pipeline), params)
        raise AirflowSkipException("Only the plan was shown. Nothing was changed.")

    def _show(self, coordinator: "CheckpointCoordinator", params: Mapping[str, Any]) -> None:
        from tidegate.coordination.recovery.importing import ImportPlan

        to, from_ = str(params["to"] or ""), str(params["from"] or "")
        if bool(to) == bool(from_):
            raise ConfigurationError(
                "Exactly one of the parameters to and from must be set. Nothing was changed. Correct them."
            )
        if from_:
            planned: Any = coordinator.plan_restore_from(absolute(from_))
        else:
            planned = coordinator.plan_restore(_target(coordinator, to))
        for line in (planned.restore if isinstance(planned, ImportPlan) else planned).lines():
            self.log.info("%s", line)

    def _announce(self, context: Context, pipeline: Pipeline, checkpoint_id: int, plan: RestorePlan | None) -> None:
        """Announce the rewound sinks. Without a plan, an earlier run restored and may not have announced: then all
        sinks are.
        """
        stay = set() if plan is None else {sink.sink for sink in plan.sinks if not sink.can_rewind}
        rewound = [asset for name, asset in _assets(pipeline).items() if name not in stay]
        self.outlets = [asset for asset in rewound if asset in self.outlets]
        for asset in self.outlets:
            context["outlet_events"][asset].extra = {"checkpoint_id": checkpoint_id, "restored": True}


def _assets(pipeline: Pipeline) -> dict[str, Asset]:
    sinks = [vertex.name for vertex in pipeline.vertices if isinstance(vertex, SinkVertex)]
    return {name: sink_asset(pipeline.name, name) for name in sinks}


def _target(coordinator: "CheckpointCoordinator", to: str) -> "Target":
    """Return the target of the restore.

    Raises:
        CheckpointNotFoundError: If there is no such savepoint.
    """
    from tidegate.coordination.recovery.restore import ToCheckpoint, Undo

    if to == "undo":
        return Undo()
    if to == "latest":
        return ToCheckpoint(None)
    if to.isdecimal():
        return ToCheckpoint(int(to))
    return ToCheckpoint(coordinator.savepoints.find(to).checkpoint_id)
