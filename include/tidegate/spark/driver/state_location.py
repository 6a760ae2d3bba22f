"""The location of an operator's state, in the form that its subtasks receive."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.vertices import KeyedVertex
from tidegate.protocol.facts.keygroups import key_groups_of
from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.schema.expiry import Moment
from tidegate.protocol.schema.state_schema import compare_schemas
from tidegate.protocol.steps.refusal import require_none, unfit_state
from tidegate.state.expiring import Expiry, decide_expiry, succeeding
from tidegate.state.layout import StateLayout
from tidegate.state.opening import known_layout
from tidegate.state.runs import newest_of
from tidegate.state.spec import SubtaskSpec


@dataclass(frozen=True, slots=True)
class StateLocation:
    """The checkpoint storage, and the local cache on the machine that reads from it. A cache of None is that machine's
    own."""

    graph: Graph
    storage_url: str
    cache_dir: str | None

    def spec(
        self,
        vertex: KeyedVertex,
        layout: StateLayout,
        index: int,
        runs: Sequence[StateHandle],
        checkpoint_id: int,
        expiry: Expiry,
        prefix: str = "",
    ) -> SubtaskSpec:
        """Return the specification with which subtask `index` of an operator reads `runs`, and writes below `prefix` if
        it is given."""
        pipeline = self.graph.pipeline
        return SubtaskSpec(
            storage_url=self.storage_url,
            cache_dir=self.cache_dir,
            operator=vertex.operator_id,
            pipeline=pipeline.name,
            checkpoint_id=checkpoint_id,
            prefix=prefix,
            key_groups=key_groups_of(index, pipeline.parallelism, pipeline.max_parallelism),
            max_parallelism=pipeline.max_parallelism,
            layout=layout,
            runs=tuple(runs),
            at=expiry.at,
            horizon=expiry.horizon,
        )

    def specs(
        self, vertex: KeyedVertex, layout: StateLayout, plan: ExecutionPlan, indexes: Iterable[int]
    ) -> dict[int, SubtaskSpec]:
        """Return the specifications with which subtasks find their state as of the latest completed checkpoint and
        write their run."""
        id_, prefixes = plan.checkpoint_id, plan.prefixes(vertex)
        expiry = decide_expiry(layout, plan.all_runs(vertex), plan.moment)
        return {
            index: self.spec(vertex, layout, index, plan.runs(vertex, index), id_, expiry, prefixes[index])
            for index in indexes
        }

    def layout(self, vertex: KeyedVertex, defined: StateLayout, plan: ExecutionPlan) -> StateLayout:
        """Return the layout in which a checkpoint reads and writes an operator's state. Raise as `succeeding` does."""
        return self.succeeding(vertex, defined, plan.all_runs(vertex), plan.moment)

    def succeeding(
        self, vertex: KeyedVertex, defined: StateLayout, runs: Sequence[StateHandle], moment: Moment
    ) -> StateLayout:
        """Return the layout of an operator's definition as the successor of the layout in which its state (`runs`, of
        all subtasks) was last written. If the time to live of its rows has changed, the change counts from `moment`.
        Raise `StateSchemaError` if it cannot succeed that layout."""
        newest = newest_of(runs) if runs else None
        if newest is None or newest.details.get("layout") == defined.fingerprint:
            return defined
        pipeline_id = self.graph.pipeline.name
        where = f"operator {vertex.operator_id} of pipeline {pipeline_id}"
        stored = known_layout(self.storage_url, where, newest)
        change = compare_schemas(stored.schema, defined.beginning(moment.at).schema, vertex.previous.columns)
        if change.problems:
            require_none([unfit_state(pipeline_id, vertex.operator_id, change.problems)])
        return succeeding(stored, defined, change.schema, runs, moment)
