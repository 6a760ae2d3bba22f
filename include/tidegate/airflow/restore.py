"""A DAG that restores pipelines. Its form says which one, and to where; by default a run only shows the plan."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Asset, BaseOperator, Context, Param
from airflow.sdk.exceptions import AirflowSkipException

from tidegate.airflow.assets import sink_asset
from tidegate.airflow.gestures import gesture_of
from tidegate.airflow.planned_restore import carry_out
from tidegate.airflow.step import airflow_outcome
from tidegate.pipeline.definition import Pipeline, SinkVertex
from tidegate.protocol.errors import ConfigurationError
from tidegate.protocol.gestures import Gesture, GestureKind
from tidegate.protocol.imports import ClaimMode
from tidegate.protocol.restore_plan import Accepted, RestorePlan
from tidegate.settings import absolute
from tidegate.ui.urls import RESTORES

if TYPE_CHECKING:
    from tidegate.coordination.coordinator import CheckpointCoordinator
    from tidegate.coordination.restore import Target

_TO = "Where to go back to: a checkpoint's number, a savepoint's name, `latest`, or `undo` for the last restore."
_FROM = "Or the directory of a canonical savepoint, a path or URL."
_CLAIM = "Of such a directory: no-claim leaves it to you, claim empties it afterwards."
_RELOCATE = "Of such a directory: sources or sinks were moved on purpose, with their tables."
_DRY_RUN = "Only show the plan, in the task's log. Turn it off to carry the plan out."
_MISSING = "What to do if files that would be read again are gone or have changed."
_LEAVE = "Names of sinks that cannot be rewound, and stay as they are."
_PLAN = "Filled in by the Checkpoints page, for a restore that it has asked for. Leave it empty."
_DROP = "Drop state that the definition has no operator for."


def restore_dag(*pipelines: Pipeline, **dag_kwargs: Any) -> DAG:
    """The DAG `tidegate_restore`, for these pipelines; it runs when somebody triggers it. `dag_kwargs` are those of
    `DAG`."""
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
            "claim_mode": Param(str(ClaimMode.NO_CLAIM), enum=[str(mode) for mode in ClaimMode], description=_CLAIM),
            "relocate": Param(False, type="boolean", description=_RELOCATE),
            "dry_run": Param(True, type="boolean", description=_DRY_RUN),
            "missing_files": Param("refuse", enum=["refuse", "skip"], description=_MISSING),
            "leave": Param([], type="array", items={"type": "string"}, description=_LEAVE),
            "allow_non_restored_state": Param(False, type="boolean", description=_DROP),
            "plan": Param(None, type=["null", "string"], description=_PLAN),
        },
        "doc_md": "Goes back to an earlier checkpoint: state, positions of sources, and tables.",
    } | dag_kwargs
    with DAG(schedule=None, **options) as dag:
        RestoreOperator(task_id="restore", pipelines=pipelines)
    dag.fileloc = sys._getframe(1).f_code.co_filename  # the DAG file, which calls this; Airflow shows its code
    return dag


class RestoreOperator(BaseOperator):
    """Shows the plan, and carries it out unless the DAG run's parameter `dry_run` says not to: then it is skipped.

    Its events say that the tables went back: one for each sink that was rewound, with `{"checkpoint_id", "restored"}`.
    """

    def __init__(self, *, pipelines: tuple[Pipeline, ...], **kwargs: Any) -> None:
        kwargs.setdefault("outlets", [sink for pipeline in pipelines for sink in _assets(pipeline).values()])
        super().__init__(do_xcom_push=False, retries=0, **kwargs)
        self.pipelines = {pipeline.name: pipeline for pipeline in pipelines}

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """As in `CheckpointTask`: what a user put into a pipeline need not be fit to be copied."""
        memo[id(self.pipelines)] = self.pipelines
        return super().__deepcopy__(memo)

    def execute(self, context: Context) -> None:
        # Imported here: DAG files are parsed often, and importing what runs a step takes seconds.
        from tidegate.assembly import open_coordinator

        params: Mapping[str, Any] = context["params"]
        with airflow_outcome(context):
            pipeline = self.pipelines.get(str(params["pipeline"]))
            if pipeline is None:
                raise ConfigurationError(
                    f"The parameter pipeline is {params['pipeline']!r}, but must be one of "
                    f"{', '.join(self.pipelines)}. Nothing was changed."
                )
            if params.get("plan"):
                done = carry_out(open_coordinator(pipeline), str(params["plan"]), context)
                self._announce(context, pipeline, done.checkpoint_id, done.plan)
                return
            kind = GestureKind.UNDO if params["to"] == "undo" else GestureKind.RESTORE
            gesture = None if params["dry_run"] else gesture_of(context, kind)
            coordinator = open_coordinator(pipeline)
            if gesture is not None and (known := coordinator.auditing.answer_to(gesture)) is not None:
                self.log.info("This DAG run was answered before: %s", known.require_done().sentence)
                self._announce(context, pipeline, known.checkpoint_id, None)
                return
            with coordinator.auditing.attempt(gesture):
                plan = self._restore(coordinator, params, gesture)
            self._announce(context, pipeline, plan.checkpoint.checkpoint_id, plan)

    def _restore(
        self, coordinator: "CheckpointCoordinator", params: Mapping[str, Any], gesture: Gesture | None
    ) -> RestorePlan:
        from tidegate.coordination.importing import ImportPlan

        to, from_ = str(params["to"] or ""), str(params["from"] or "")
        if bool(to) == bool(from_):
            raise ConfigurationError("Set one of the parameters to and from. Nothing was changed.")
        target = None if from_ else _target(coordinator, to)
        planned = coordinator.plan_restore_from(absolute(from_)) if target is None else coordinator.plan_restore(target)
        plan = planned.restore if isinstance(planned, ImportPlan) else planned
        self._show(plan)
        if params["dry_run"]:
            raise AirflowSkipException("Only the plan was shown. Nothing was changed.")
        accepted = Accepted(
            params["missing_files"] == "skip",
            tuple(params["leave"]),
            bool(params["allow_non_restored_state"]),
            bool(params["relocate"]),
        )
        if isinstance(planned, ImportPlan):
            coordinator.restore_from(planned.url, ClaimMode(params["claim_mode"]), accepted, planned, gesture)
        elif target is not None:
            coordinator.restore(target, accepted, planned, gesture)
        return plan

    def _show(self, plan: RestorePlan) -> None:
        for line in plan.lines():
            self.log.info("%s", line)

    def _announce(
        self, context: Context, pipeline: Pipeline, checkpoint_id: int | None, plan: RestorePlan | None
    ) -> None:
        """Without a plan it was restored before, and perhaps not announced: all sinks are, rather than none."""
        stay = set() if plan is None else {sink.sink for sink in plan.sinks if not sink.can_rewind}
        mine = [asset for name, asset in _assets(pipeline).items() if name not in stay]
        self.outlets = [asset for asset in mine if asset in self.outlets]
        for asset in self.outlets:
            context["outlet_events"][asset].extra = {"checkpoint_id": checkpoint_id, "restored": True}


def _assets(pipeline: Pipeline) -> dict[str, Asset]:
    sinks = [vertex.name for vertex in pipeline.vertices if isinstance(vertex, SinkVertex)]
    return {name: sink_asset(pipeline.name, name) for name in sinks}


def _target(coordinator: "CheckpointCoordinator", to: str) -> "Target":
    """Raises `CheckpointNotFoundError`."""
    from tidegate.coordination.restore import ToCheckpoint, Undo

    if to == "undo":
        return Undo()
    if to == "latest":
        return ToCheckpoint(None)
    if to.isdecimal():
        return ToCheckpoint(int(to))
    return ToCheckpoint(coordinator.savepoints.find(to).checkpoint_id)
