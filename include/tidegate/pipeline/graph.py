"""A pipeline, checked as a whole and ordered. The coordinator plans by it, and a region executes it.

`compile_graph` reports every mistake that can be seen without data, with the name of the vertex.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from tidegate.pipeline.aggregates import Aggregate
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.expectations import ExpectationSuite
from tidegate.pipeline.guarantees import check_guarantee
from tidegate.pipeline.inputs import check_watermarks, inputs_of, timed_vertices
from tidegate.pipeline.joins import check_join
from tidegate.pipeline.known_columns import check_columns, check_promises
from tidegate.pipeline.places import check_effect, check_places, place_of
from tidegate.pipeline.sink_inputs import check_input, check_updates, takes_upserts
from tidegate.pipeline.streams import LATE_ROWS
from tidegate.pipeline.ttl import check_ttl
from tidegate.pipeline.vertices import CheckVertex, KeyedVertex, SinkVertex, SourceVertex, StepVertex, Vertex
from tidegate.pipeline.windows import check_event_time, check_window
from tidegate.ports import SinkInput
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.facts.names import Target, TargetKind
from tidegate.protocol.facts.records import CheckpointRecord, OperatorPlan, SubtaskId
from tidegate.protocol.recovery.identity import Endpoint, Role
from tidegate.protocol.steps.hold import HoldRules
from tidegate.protocol.steps.restored_snapshots import kept_max_parallelism
from tidegate.settings import Settings, relative_to_home

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


@dataclass(frozen=True)
class Graph:
    """A valid pipeline, each kind of vertex upstream before downstream."""

    pipeline: Pipeline
    sources: tuple[SourceVertex, ...]
    producers: tuple[StepVertex | KeyedVertex, ...]
    sinks: tuple[SinkVertex, ...]
    checks: tuple[CheckVertex, ...]

    @cached_property
    def keyed(self) -> tuple[KeyedVertex, ...]:
        """The producers that have state."""
        return tuple(vertex for vertex in self.producers if isinstance(vertex, KeyedVertex))

    @property
    def operators(self) -> tuple[StepVertex | KeyedVertex | SinkVertex, ...]:
        """The vertices that run on Spark, upstream before downstream."""
        return (*self.producers, *self.sinks)

    @cached_property
    def plan(self) -> tuple[OperatorPlan, ...]:
        """Every operator that must acknowledge, with its number of subtasks."""
        p, g = self.pipeline.parallelism, self.pipeline.max_parallelism
        splits = tuple(OperatorPlan(vertex.operator_id, vertex.source.num_splits(), g) for vertex in self.sources)
        return splits + tuple(OperatorPlan(vertex.operator_id, p, g) for vertex in self.operators)

    def plan_from(self, record: CheckpointRecord) -> tuple[OperatorPlan, ...]:
        """Return the plan of a pipeline that continues from a checkpoint. Unless the definition sets max_parallelism,
        the state keeps its own."""
        kept = kept_max_parallelism(record, self.pipeline.parallelism)
        if kept is None or self.pipeline.sets_max_parallelism:
            return self.plan
        return tuple(replace(plan, max_parallelism=kept) for plan in self.plan)

    @cached_property
    def subtasks(self) -> tuple[SubtaskId, ...]:
        return tuple(SubtaskId(plan.operator_id, index) for plan in self.plan for index in range(plan.parallelism))

    @cached_property
    def suites(self) -> Mapping[Target, ExpectationSuite]:
        """The suites, by the target that they validate."""
        states = {Target(TargetKind.STATE, vertex.name): vertex.expect for vertex in self.keyed if vertex.expect}
        sinks = {Target(TargetKind.SINK, vertex.name): vertex.expect for vertex in self.sinks if vertex.expect}
        return states | sinks | {Target(TargetKind.CHECK, vertex.name): vertex.expect for vertex in self.checks}

    @property
    def targets(self) -> tuple[Target, ...]:
        """The targets of validation. A checkpoint expects one verdict for each."""
        return tuple(self.suites)

    @property
    def holds(self) -> HoldRules:
        """The time that a failure of each expectation waits for manual approval, if it does, by target."""
        return {target: suite.hold_rules for target, suite in self.suites.items()}

    @cached_property
    def upstreams(self) -> Mapping[str, tuple[str, ...]]:
        """The vertices that each operator reads, by operator."""
        return {v.operator_id: tuple(dict.fromkeys(s.origin for s in inputs_of(v))) for v in self.operators}

    @cached_property
    def renamed(self) -> Mapping[str, str]:
        """The former names of renamed vertices, by operator."""
        vertices: tuple[SourceVertex | KeyedVertex, ...] = (*self.sources, *self.keyed)
        return {v.operator_id: v.previous.name for v in vertices if v.previous.name is not None}

    @cached_property
    def outputs(self) -> Mapping[str, str]:
        """The declared columns of the rows that each operator emits, by operator."""
        return {v.operator_id: " ".join(_emitted(v).split()) for v in self.keyed if v.emits}

    @cached_property
    def watched(self) -> frozenset[str]:
        """The sources, steps and operators whose watermark is needed: those with windows, and the path to them from an
        event time."""
        leading = {vertex.name for vertex in self.keyed if vertex.window is not None}
        for vertex in reversed(self.producers):
            if vertex.name in leading:
                leading |= {stream.origin for stream in inputs_of(vertex)}
        return frozenset(leading & timed_vertices((*self.sources, *self.producers)))

    def reads_late(self, name: str) -> bool:
        """Return whether a vertex reads the rows that arrive too late for an operator's windows."""
        streams = (stream for vertex in self.operators for stream in inputs_of(vertex))
        return any(stream.origin == name and stream.output == LATE_ROWS for stream in streams)

    @cached_property
    def restaged(self) -> frozenset[str]:
        """The sinks of current rows. They stage earlier rows again if they are new or write elsewhere."""
        return frozenset(v.operator_id for v in self.sinks if v.sink.input is SinkInput.CURRENT)

    @cached_property
    def upserted(self) -> frozenset[str]:
        """The sinks that receive the changes of an operator's state, and all of it if they lack rows."""
        keyed = {vertex.name: vertex for vertex in self.keyed}
        return frozenset(v.operator_id for v in self.sinks if takes_upserts(keyed.get(v.input.origin), v))

    @property
    def showing_state(self) -> frozenset[str]:
        """The sinks that hold all rows of an operator's state, whenever they have joined."""
        return self.restaged | self.upserted

    @cached_property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The sources and sinks that distinguish the pipeline from another one of the same name."""
        home = str(Settings.from_environment().home)
        sources = [_endpoint(Role.SOURCE, v.name, v.source.describe(), home) for v in self.sources]
        return (*sources, *(_endpoint(Role.SINK, v.name, v.sink.describe(), home) for v in self.sinks))

    def sink(self, name: str) -> SinkVertex:
        return next(vertex for vertex in self.sinks if vertex.name == name)

    def downstream(self, name: str) -> tuple[StepVertex | KeyedVertex | SinkVertex, ...]:
        return tuple(vertex for vertex in self.operators if name in (s.origin for s in inputs_of(vertex)))


def _emitted(vertex: KeyedVertex) -> str:
    """Return a text that changes when an operator begins to emit other rows than before."""
    if vertex.window is None:
        return vertex.output or f"{vertex.join or vertex.table}"
    aggregates = (f"{name} {aggregate}{dict(aggregate.options) or ''}" for name, aggregate in vertex.aggregates)
    return ", ".join((*vertex.state_key, *aggregates, *(["_delete"] if vertex.withdraws else [])))


def compile_graph(pipeline: Pipeline) -> Graph:
    """Check a pipeline and order its vertices. Raise `PipelineDefinitionError` for the first mistake."""
    _check_names(pipeline)
    origins = {v.name: v for v in pipeline.vertices if isinstance(v, SourceVertex | StepVertex | KeyedVertex)}
    for vertex in pipeline.vertices:
        _check_vertex(pipeline, vertex, origins)
    ordered = _topological(pipeline)
    _check_previous(pipeline, origins)
    check_places(pipeline)
    check_effect(pipeline)
    check_watermarks(pipeline, ordered)
    check_promises(pipeline.name, pipeline.vertices)
    check_columns(pipeline.name, pipeline.vertices)
    return Graph(
        pipeline,
        tuple(v for v in ordered if isinstance(v, SourceVertex)),
        tuple(v for v in ordered if isinstance(v, StepVertex | KeyedVertex)),
        tuple(v for v in ordered if isinstance(v, SinkVertex)),
        tuple(v for v in ordered if isinstance(v, CheckVertex)),
    )


def _check_names(pipeline: Pipeline) -> None:
    _check_name("pipeline", pipeline.name)
    seen: set[tuple[bool, str]] = set()
    for vertex in pipeline.vertices:
        _check_name(_kind(vertex), vertex.name)
        place = (isinstance(vertex, SinkVertex | CheckVertex), vertex.name)
        if place in seen:
            raise PipelineDefinitionError(
                f"Pipeline {pipeline.name!r} has two vertices named {vertex.name!r}. Sources, steps and operators need "
                "distinct names, and so do sinks and checks, because their state and files are found by name."
            )
        seen.add(place)
    if not any(isinstance(vertex, SourceVertex) for vertex in pipeline.vertices):
        raise PipelineDefinitionError(f"Pipeline {pipeline.name!r} has no source. Add one with pipeline.source(…).")


def _check_name(kind: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise PipelineDefinitionError(
            f"{name!r} is not a legal {kind} name: use lower-case letters, digits and underscores, starting with a "
            "letter, at most 63. Names become directories and identify state."
        )


def _kind(vertex: Vertex) -> str:
    return type(vertex).__name__.removesuffix("Vertex").lower().replace("keyed", "operator")


def _check_vertex(pipeline: Pipeline, vertex: Vertex, origins: Mapping[str, Vertex]) -> None:
    where = f"{_kind(vertex)} {vertex.name!r} of pipeline {pipeline.name!r}"
    for stream in inputs_of(vertex):
        if stream.pipeline is not pipeline:
            raise PipelineDefinitionError(
                f"The {where} reads a stream of another pipeline, {stream.pipeline.name!r}. "
                "Declare its source in this pipeline."
            )
        if stream.origin not in origins:
            raise PipelineDefinitionError(
                f"The {where} reads {stream.origin!r}, which is not a source, step or operator."
            )
        if stream.output == LATE_ROWS and not _has_windows(origins[stream.origin]):
            raise PipelineDefinitionError(
                f"The {where} reads the late rows of {stream.origin!r}, which has no windows, so no row comes too late "
                "for it. Only aggregate(name, window(…), …) has late rows."
            )
        if not isinstance(vertex, SinkVertex):
            check_updates(where, origins[stream.origin], stream)
    match vertex:
        case KeyedVertex():
            _check_keyed(where, vertex)
        case SinkVertex():
            check_input(where, vertex, origins[vertex.input.origin])
            check_guarantee(pipeline, vertex)
        case CheckVertex():
            names = {v.name for v in pipeline.vertices if isinstance(v, SinkVertex)}
            if unknown := sorted(set(vertex.sinks) - names):
                raise PipelineDefinitionError(
                    f"The {where} compares unknown sinks: {', '.join(unknown)}. The pipeline has "
                    f"{', '.join(sorted(names)) or 'none'}."
                )
        case SourceVertex():
            if vertex.source.num_splits() < 1:
                raise PipelineDefinitionError(f"The {where} has no split; it needs at least one.")
            if vertex.event_time is not None:
                check_event_time(where, vertex.event_time, vertex.declared_schema or "")
        case StepVertex():
            pass


def _has_windows(vertex: Vertex) -> bool:
    return isinstance(vertex, KeyedVertex) and vertex.window is not None


def _check_keyed(where: str, vertex: KeyedVertex) -> None:
    if vertex.window is not None:
        named = [name for name, _ in vertex.aggregates]
        read = [column for _, a in vertex.aggregates if isinstance(a, Aggregate) for column in a.columns()]
        check_window(where, vertex.window, vertex.key, [*named, *read])
    if not vertex.state_key or len(set(vertex.key)) != len(vertex.key):
        raise PipelineDefinitionError(f"The key of {where} must name at least one column, and none twice.")
    if not vertex.inputs:
        raise PipelineDefinitionError(f"The {where} has no input. Give it one or more streams: inputs=[…].")
    if vertex.join is not None:
        check_join(where, vertex.join, vertex.key)
    elif vertex.update is None and vertex.table is None and not vertex.aggregates:
        raise PipelineDefinitionError(f"The {where} declares no aggregate, such as flights=count().")
    if wrong := [name for name, aggregate in vertex.aggregates if not isinstance(aggregate, Aggregate)]:
        raise PipelineDefinitionError(
            f"The {where} declares {', '.join(wrong)}, which is not an aggregate such as count()."
        )
    clashes = {name for name, _ in vertex.aggregates} & set(vertex.key)
    reserved = {name for name, _ in vertex.aggregates if name.startswith("_")}
    if clashes or reserved:
        raise PipelineDefinitionError(
            f"Aggregates of {where} cannot be called {', '.join(sorted(clashes | reserved))}: key columns keep their "
            "names, and a leading underscore is reserved."
        )
    if vertex.ttl is not None and vertex.window is not None:
        raise PipelineDefinitionError(
            f"The {where} has windows and a ttl. Windows leave the state when they have ended, so leave the ttl out."
        )
    if vertex.ttl is not None:
        check_ttl(where, vertex.ttl, vertex.aggregates)
    if vertex.output is not None and not vertex.output.strip():
        raise PipelineDefinitionError(
            f"The output of {where} names no column. Name the columns that its function emits, such as "
            "output='order_id bigint, name string', or leave it out."
        )


def _check_previous(pipeline: Pipeline, origins: Mapping[str, Vertex]) -> None:
    """Raise `PipelineDefinitionError` if two vertices claim the state of one."""
    claimed: dict[str, str] = {}
    for vertex in pipeline.vertices:
        if not isinstance(vertex, SourceVertex | KeyedVertex) or vertex.previous.name is None:
            continue
        former = vertex.previous.name
        other = former if former in origins else claimed.get(former)
        if other is not None:
            raise PipelineDefinitionError(
                f"The {_kind(vertex)} {vertex.name!r} of pipeline {pipeline.name!r} names {former!r} as its previous "
                f"name, and so does or is called {other!r}. Only one of them can continue from its state."
            )
        claimed[former] = vertex.name


def _topological(pipeline: Pipeline) -> list[Vertex]:
    sorter: TopologicalSorter[tuple[bool, str]] = TopologicalSorter()
    by_place = {(isinstance(v, SinkVertex | CheckVertex), v.name): v for v in pipeline.vertices}
    for place, vertex in by_place.items():
        sorter.add(place, *((False, stream.origin) for stream in inputs_of(vertex)))
    try:
        return [by_place[place] for place in sorter.static_order()]
    except CycleError as error:
        names = " -> ".join(name for _, name in error.args[1])
        raise PipelineDefinitionError(
            f"Pipeline {pipeline.name!r} has a cycle: {names}. An operator cannot read what follows from its own "
            "output."
        ) from error


def _endpoint(role: Role, name: str, description: Mapping[str, object], home: str) -> Endpoint:
    return Endpoint(role, name, str(description["type"]), relative_to_home(place_of(description), home))
