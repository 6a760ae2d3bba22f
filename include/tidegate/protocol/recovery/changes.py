"""The nouns of a plan of changes: the definition, the records of a checkpoint, and the change of each vertex."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.records import CheckpointRecord, OperatorPlan, Snapshot, SubtaskId
from tidegate.protocol.recovery.identity import Endpoint
from tidegate.protocol.schema.state_schema import StateSchema
from tidegate.protocol.schema.table_plan import (
    TableKind,
    TableVerdict,
)
from tidegate.protocol.steps.finished import Upstreams
from tidegate.protocol.steps.restored_snapshots import Renamed

#: The option of an operator that describes its windows.
WINDOW = "window"
#: The option of a sink that identifies the code from which it derives its columns.
TRANSFORMS = "transforms"


class ChangeVerdict(StrEnum):
    SAME = "same"  # it goes on unchanged
    NEW = "new"  # it starts empty
    DROPPED = "dropped"  # its state is not needed, or is lost on purpose
    MIGRATES = "migrates"  # its state is brought to the new definition when it is read
    REFUSES = "refuses"  # a run would be refused


class VertexKind(StrEnum):
    SOURCE = "source"
    STEP = "step"
    OPERATOR = "operator"
    SINK = "sink"
    CHECK = "check"


@dataclass(frozen=True, slots=True)
class DefinedVertex:
    """A vertex of the definition. `schema` is that of its state, None if there is none or only Spark can determine it.
    `former` are the former names of its columns. `options` describe a source, a sink or an operator's windows.
    `appends`: a sink that never writes committed rows again. `upserts`: a sink that is given the changes of a state."""

    kind: VertexKind
    name: str
    plan: OperatorPlan
    schema: StateSchema | None = None
    former: Mapping[str, str | None] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    appends: bool = False
    upserts: bool = False
    kind_of_table: TableKind = TableKind.FILES


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition, as facts. `targets` are those with expectations. `outputs` are the columns of operators that
    emit."""

    pipeline_id: str
    vertices: Sequence[DefinedVertex]
    upstreams: Upstreams
    renamed: Renamed
    endpoints: Sequence[Endpoint]
    targets: Sequence[Target]
    allow_non_restored_state: bool
    outputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def operators(self) -> list[OperatorPlan]:
        return [vertex.plan for vertex in self.vertices]


@dataclass(frozen=True, slots=True)
class Recorded:
    """The records of a checkpoint and its pipeline. `schemas` are those in which operators last wrote their state.
    `options` are those of operators, sources and sinks at that time."""

    record: CheckpointRecord
    snapshots: Mapping[SubtaskId, Snapshot]
    schemas: Mapping[str, StateSchema]
    endpoints: Sequence[Endpoint] = ()
    targets: Sequence[Target] = ()
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VertexChange:
    """The change of a vertex. `changes` are phrases. For a refusal they are the reasons, in whole sentences, and
    `way_out` is the advice. `table` is the way in which the table of a sink that has written before is read from then
    on. `commits` is the moment when a sink shows rows."""

    kind: VertexKind
    name: str
    verdict: ChangeVerdict
    changes: tuple[str, ...] = ()
    way_out: str = ""
    table: TableVerdict | None = None
    commits: str | None = None


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """The plan of changes. `record` is the checkpoint that the pipeline goes on from; None if there is none, so that
    everything is new."""

    pipeline: PipelineRecord
    record: CheckpointRecord | None
    vertices: tuple[VertexChange, ...]

    @property
    def refuses(self) -> bool:
        return any(vertex.verdict is ChangeVerdict.REFUSES for vertex in self.vertices)

    def summary(self) -> str:
        """Return the result of the plan in a sentence."""
        name = self.pipeline.pipeline_id
        if self.record is None and self.refuses:
            return f"Pipeline {name} cannot begin where its sinks write. Nothing was changed."
        if self.record is None:
            return f"Pipeline {name} has no checkpoint that it could go on from: everything starts anew."
        where = f"checkpoint {self.record.checkpoint_id}"
        if self.refuses:
            return f"Pipeline {name} cannot go on from {where} with this definition. Nothing was changed."
        return f"Pipeline {name} can go on from {where}.{_standing(self.pipeline)}"


def _standing(pipeline: PipelineRecord) -> str:
    """Return the step that the pipeline's status requires first."""
    match pipeline.status:
        case PipelineStatus.CANCELLED | PipelineStatus.FINISHED:
            again = f"`tidegate restore {pipeline.pipeline_id} --latest` runs it again, from there"
            return f" It is {pipeline.status}: {again}."
        case PipelineStatus.SUSPENDED | PipelineStatus.FAILED:
            return f" It is {pipeline.status}: `tidegate resume {pipeline.pipeline_id}` lets it."
        case _:
            return ""
