"""The plan of changes: the effect of a definition on a recorded checkpoint, a verdict for each vertex, before a run.

`coordination.recovery.change_plan` gathers the facts. A run is refused by the same functions, and so in the same words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidegate.protocol.facts.names import Target, TargetKind, is_sink, sink_of_operator
from tidegate.protocol.facts.records import HandleKind, SubtaskId
from tidegate.protocol.recovery.changes import (
    TRANSFORMS,
    WINDOW,
    ChangeVerdict,
    DefinedVertex,
    Definition,
    Recorded,
    VertexChange,
    VertexKind,
)
from tidegate.protocol.recovery.identity import Moved, Role, find_moved
from tidegate.protocol.schema.state_schema import SchemaChange, compare_schemas
from tidegate.protocol.schema.table_plan import (
    Changes,
    TableChange,
    TableKind,
    TableVerdict,
    changed_rows,
    changed_state,
    plan_table,
)
from tidegate.protocol.steps.finished import find_illegal
from tidegate.protocol.steps.in_flight import find_stranded
from tidegate.protocol.steps.refusal import Refusal, unfit_state
from tidegate.protocol.steps.restored_snapshots import find_unrestorable, former_names, restore_snapshots
from tidegate.protocol.steps.sink_marks import SinkMark
from tidegate.protocol.steps.watermarks import is_of_operator


def compare_states(recorded: Recorded, definition: Definition) -> dict[str, SchemaChange]:
    """Compare the state of each operator with the definition. Operators without state on either side are left out.
    Performs no I/O."""
    renamed = former_names(recorded.record, definition.renamed)
    found = {}
    for vertex in definition.vertices:
        stored = recorded.schemas.get(renamed.get(vertex.plan.operator_id, vertex.plan.operator_id))
        if stored is not None and vertex.schema is not None:
            found[vertex.plan.operator_id] = compare_schemas(stored, vertex.schema, vertex.former)
    return found


def find_refusals(recorded: Recorded, definition: Definition) -> list[Refusal]:
    """Find all reasons for which a run would be refused. Performs no I/O."""
    record, operators = recorded.record, definition.operators
    renamed = former_names(record, definition.renamed)
    allow = definition.allow_non_restored_state
    found = find_unrestorable(record, recorded.snapshots, operators, allow, renamed)
    refused = {refusal.operator_id for refusal in found}
    legal = [plan for plan in operators if plan.operator_id not in refused]
    restored = restore_snapshots(record, recorded.snapshots, legal, (), True, renamed)
    found += find_illegal(record, legal, restored, definition.upstreams, renamed)
    found += [_moved(definition, moved) for moved in find_moved(recorded.endpoints, definition.endpoints)]
    states = compare_states(recorded, definition)
    changed = [operator_id for operator_id, change in states.items() if change.changes]
    found += find_stranded(definition.pipeline_id, restored, legal, definition.upstreams, changed, definition.outputs)
    for operator_id, change in states.items():
        if change.problems:
            found.append(unfit_state(definition.pipeline_id, operator_id, change.problems))
    return found


def _moved(definition: Definition, moved: Moved) -> Refusal:
    kind = VertexKind.SOURCE if moved.defined.role is Role.SOURCE else VertexKind.SINK
    ids = (v.plan.operator_id for v in definition.vertices if (v.kind, v.name) == (kind, moved.defined.name))
    text = str(moved)
    return Refusal(
        next(ids),
        f"{text[0].upper()}{text[1:]}.",
        f"If it was moved on purpose, confirm that once with `tidegate relocate {definition.pipeline_id}`; if this is "
        "another pipeline, give it a name of its own.",
    )


def plan_changes(
    recorded: Recorded | None, definition: Definition, places: Sequence[Refusal] = ()
) -> tuple[VertexChange, ...]:
    """Return the verdict on each vertex, those of the definition first. `places` are the reasons why sinks may not
    write to their places; one without an operator is about the checkpoint storage. Performs no I/O."""
    if recorded is None:
        refused = by_operator(places, definition)
        return tuple(
            _refused(
                VertexChange(v.kind, v.name, ChangeVerdict.NEW, commits=_commits(v)), refused.get(v.plan.operator_id)
            )
            for v in definition.vertices
        )
    plan = _Plan(recorded, definition, places)
    return (*plan.defined(), *plan.gone(), *plan.checks())


def by_operator(refusals: Sequence[Refusal], definition: Definition) -> dict[str, list[Refusal]]:
    """Group refusals by operator. Those about the checkpoint storage are assigned to the sources. Performs no I/O."""
    grouped: dict[str, list[Refusal]] = {}
    sources = [v.plan.operator_id for v in definition.vertices if v.kind is VertexKind.SOURCE]
    for refusal in refusals:
        for operator_id in [refusal.operator_id] if refusal.operator_id else sources:
            grouped.setdefault(operator_id, []).append(refusal)
    return grouped


def _refused(change: VertexChange, refusals: Sequence[Refusal] | None) -> VertexChange:
    if not refusals:
        return change
    why = tuple(refusal.why for refusal in refusals)
    way_out = " ".join(dict.fromkeys(refusal.way_out for refusal in refusals))
    return replace(change, verdict=ChangeVerdict.REFUSES, changes=why, way_out=way_out)


def _commits(vertex: DefinedVertex) -> str | None:
    return str(vertex.options["commits"]) if "commits" in vertex.options else None


class _Plan:
    def __init__(self, recorded: Recorded, definition: Definition, places: Sequence[Refusal]) -> None:
        self._recorded = recorded
        self._definition = definition
        self._renamed = former_names(recorded.record, definition.renamed)
        self._before = {plan.operator_id: plan for plan in recorded.record.operators}
        self._states = compare_states(recorded, definition)
        self._refusals = by_operator([*find_refusals(recorded, definition), *places], definition)

    def defined(self) -> Iterator[VertexChange]:
        for vertex in self._definition.vertices:
            former = self._renamed.get(vertex.plan.operator_id, vertex.plan.operator_id)
            if former not in self._before:
                phrases = (_GIVEN_ALL if vertex.upserts else _NEW[vertex.kind],)
                new = VertexChange(vertex.kind, vertex.name, ChangeVerdict.NEW, phrases, commits=_commits(vertex))
                yield self._refused(new, vertex.plan.operator_id)
                continue
            migrations = tuple(self._migrations(vertex, former))
            table = self._table(vertex)
            change = VertexChange(
                vertex.kind,
                vertex.name,
                ChangeVerdict.MIGRATES if migrations else ChangeVerdict.SAME,
                (*migrations, *self._adjustments(vertex, former), *([table.advice] if table and table.advice else ())),
                table=None if table is None else table.verdict,
                commits=_commits(vertex),
            )
            yield self._refused(change, vertex.plan.operator_id)

    def _refused(self, change: VertexChange, operator_id: str) -> VertexChange:
        return _refused(change, self._refusals.get(operator_id))

    def _migrations(self, vertex: DefinedVertex, former: str) -> Iterator[str]:
        if former != vertex.plan.operator_id:
            yield f"was called {former!r}"
        if (change := self._states.get(vertex.plan.operator_id)) is not None:
            yield from change.changes

    def _adjustments(self, vertex: DefinedVertex, former: str) -> Iterator[str]:
        """Return the differences that need no migration of state."""
        before, now = self._before[former].parallelism, vertex.plan.parallelism
        if before != now:
            noun = "splits" if vertex.kind is VertexKind.SOURCE else "parallelism"
            yield f"{noun}: {before}, now {now}"
        yield from self._different_options(vertex, former)
        yield from self._windows(vertex, former)
        target = _target_of(vertex)
        if target is not None:
            yield from self._expectations(target)
        if (vertex.upserts and self._may_lack_rows(vertex, former)) or self._derives_otherwise(vertex, former):
            yield _GIVEN_ALL

    def _may_lack_rows(self, vertex: DefinedVertex, former: str) -> bool:
        """Whether the table of a sink of upserts may have other rows than the state, or other columns."""
        snapshots, plan = self._recorded.snapshots, self._before[former]
        marks = [SinkMark.of(snapshots.get(SubtaskId(former, index))) for index in range(plan.parallelism)]
        (origin,) = self._definition.upstreams[vertex.plan.operator_id]
        fit = (mark is not None and mark.operator_id == origin for mark in marks)
        state = self._states.get(origin)
        return (
            not all(fit)
            or plan.parallelism != vertex.plan.parallelism
            or any(self._different_options(vertex, former))
            or (state is not None and bool(state.changes))
        )

    def _derives_otherwise(self, vertex: DefinedVertex, former: str) -> bool:
        recorded = self._recorded.options.get(former) or vertex.options
        return not vertex.appends and recorded.get(TRANSFORMS) != vertex.options.get(TRANSFORMS)

    def _different_options(self, vertex: DefinedVertex, former: str) -> Iterator[str]:
        recorded = self._recorded.options.get(former) or vertex.options
        for name in sorted(recorded.keys() | vertex.options.keys()):
            old, new = recorded.get(name), vertex.options.get(name)
            if old != new and name == TRANSFORMS:
                yield "its transforms have changed"
            elif old != new and name not in ("type", "path", "splits", "inputs", WINDOW):
                yield f"{name}: {old!r}, now {new!r}"

    def _windows(self, vertex: DefinedVertex, former: str) -> Iterator[str]:
        """Return the change of the windows. Whether there are windows at all follows from the state."""
        old, new = self._recorded.options.get(former, {}).get(WINDOW), vertex.options.get(WINDOW)
        if old is not None and new is not None and old != new:
            yield f"its windows were {old}, and are {new}: those that are open keep their bounds"

    def _expectations(self, target: Target) -> Iterator[str]:
        before, now = target in self._recorded.targets, target in self._definition.targets
        if now and not before:
            yield "has expectations that are new"
        if before and not now:
            yield "has no expectations any more"

    def _table(self, vertex: DefinedVertex) -> TableChange | None:
        """Plan the effect on a sink's table. A directory of current rows is written again, and one of appended rows
        keeps its old rows."""
        if vertex.kind is not VertexKind.SINK:
            return None
        if not vertex.appends and vertex.kind_of_table in (TableKind.FILES, TableKind.UNKNOWN):
            return TableChange(TableVerdict.AS_BEFORE, "")
        upstreams, known = self._definition.upstreams, {v.plan.operator_id: v for v in self._definition.vertices}
        direct = upstreams.get(vertex.plan.operator_id, ())
        waiting, found = list(direct), list[Changes]()
        seen = set[str]()
        while waiting:
            id_ = waiting.pop()
            if id_ in seen or id_ not in known:
                continue
            seen.add(id_)
            waiting += upstreams.get(id_, ())
            found.append(self._columns(known[id_]))
        sole = known.get(direct[0]) if len(direct) == 1 and direct[0] not in self._definition.outputs else None
        is_exact = sole is not None and bool(self._columns(sole))
        return plan_table(found[:1] if is_exact else found, is_exact, vertex.kind_of_table)

    def _columns(self, vertex: DefinedVertex) -> Changes:
        """Return the changed columns of a source, or of an operator's state."""
        former = self._renamed.get(vertex.plan.operator_id, vertex.plan.operator_id)
        if vertex.kind is VertexKind.SOURCE:
            before = self._recorded.options.get(former, {})
            return changed_rows(before.get("schema"), vertex.options.get("schema"))
        stored, change = self._recorded.schemas.get(former), self._states.get(vertex.plan.operator_id)
        return {} if stored is None or change is None or change.problems else changed_state(stored, change.schema)

    def gone(self) -> Iterator[VertexChange]:
        kept = {vertex.plan.operator_id for vertex in self._definition.vertices} | set(self._renamed.values())
        for operator_id in self._before.keys() - kept:
            kind = self._kind_of(operator_id)
            name = sink_of_operator(operator_id) if kind is VertexKind.SINK else operator_id
            change = VertexChange(kind, name, ChangeVerdict.DROPPED, (_DROPPED[kind],))
            yield self._refused(change, operator_id)

    def _kind_of(self, operator_id: str) -> VertexKind:
        """Infer the kind of a vertex that is gone from its recorded snapshots."""
        if is_sink(operator_id):
            return VertexKind.SINK
        snapshots = [snapshot for id_, snapshot in self._recorded.snapshots.items() if id_.operator_id == operator_id]
        kinds = {handle.kind for snapshot in snapshots for handle in snapshot.handles}
        if HandleKind.RUN in kinds:
            return VertexKind.OPERATOR
        positions = [snapshot.position for snapshot in snapshots if snapshot.position]
        is_source = HandleKind.POSITION in kinds or any(not is_of_operator(position) for position in positions)
        return VertexKind.SOURCE if is_source else VertexKind.STEP

    def checks(self) -> Iterator[VertexChange]:
        for target in dict.fromkeys((*self._definition.targets, *self._recorded.targets)):
            if target.kind is TargetKind.CHECK:
                before, now = target in self._recorded.targets, target in self._definition.targets
                verdict = ChangeVerdict.SAME if before and now else ChangeVerdict.NEW if now else ChangeVerdict.DROPPED
                yield VertexChange(VertexKind.CHECK, target.name, verdict)


def _target_of(vertex: DefinedVertex) -> Target | None:
    kinds = {VertexKind.OPERATOR: TargetKind.STATE, VertexKind.SINK: TargetKind.SINK}
    return Target(kinds[vertex.kind], vertex.name) if vertex.kind in kinds else None


_NEW = {
    VertexKind.SOURCE: "reads everything from the beginning",
    VertexKind.STEP: "begins with the next checkpoint",
    VertexKind.OPERATOR: "starts empty: earlier rows do not reach it",
    VertexKind.SINK: "begins with the next checkpoint; a table of current rows shows all of them",
    VertexKind.CHECK: "applies from the next checkpoint on",
}
_GIVEN_ALL = "is given all rows of the state once, with the next checkpoint"
_DROPPED = {
    VertexKind.SOURCE: "its position is dropped",
    VertexKind.STEP: "had no state of its own",
    VertexKind.OPERATOR: "its state is dropped",
    VertexKind.SINK: "its written rows stay",
    VertexKind.CHECK: "applies no more",
}
