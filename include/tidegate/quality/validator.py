"""The `Validator` used in production: a verdict for each of the pipeline's targets, from Great Expectations.

A sink's staged rows are validated in this process if they are few and all good, and otherwise on Spark, like everything
else. This module decides what counts as validated and which columns identify a failing row. An error during validation
is a verdict with `success` None, which blocks the checkpoint. Only if Spark is lost there is no verdict, and a repeated
step can succeed. `tidegate.protocol` decides what a failed verdict does to the checkpoint.

A target with nothing staged passes with `evaluated` 0, without importing Great Expectations: a suite over no rows holds
trivially, and an empty checkpoint must stay cheap. A DataFrame that happens to have no rows is validated.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.pipeline.expectations import ExpectationSuite
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.steady import validation_targets
from tidegate.ports import ArrowRows, ArrowSink, SinkInput
from tidegate.protocol.facts.errors import UnavailableError
from tidegate.protocol.facts.names import Target, TargetKind
from tidegate.protocol.facts.records import CheckpointRecord, SubtaskId, SubtaskRecord, Verdict
from tidegate.protocol.steps.approvals import MOST_ROWS
from tidegate.protocol.steps.carried_verdicts import files_of
from tidegate.protocol.steps.hold import decide_hold
from tidegate.protocol.steps.sink_marks import DELETES
from tidegate.protocol.text.lost_spark import is_lost, lost_error
from tidegate.quality.arrow_pass import Prepared
from tidegate.quality.docs import build_docs
from tidegate.quality.page import Section
from tidegate.quality.results import result_object
from tidegate.quality.suite_validation import (
    ExpectationError,
    Finding,
    build,
    headline,
    prepare_suite,
    validate_arrow,
    validate_frame,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

FrameReader = Callable[[Target, Mapping[SubtaskId, SubtaskRecord], CheckpointRecord], "DataFrame | None"]

# Validation waits for Spark, so several targets run at once. Without Spark it is work for the interpreter.
_AT_ONCE = 4

# The number of columns that identify a failing row if there is no key.
_SHOWN_COLUMNS = 8
_NESTED = ("array", "map", "struct", "binary", "variant")


def frames_of(graph: Graph, read: FrameReader) -> FrameReader:
    """Return `read`, restricted to targets with files, so that an empty checkpoint starts no Spark."""
    known = {each.target: each for each in validation_targets(graph)}

    def frame(target: Target, subtasks: Mapping[SubtaskId, SubtaskRecord], of: CheckpointRecord) -> "DataFrame | None":
        return read(target, subtasks, of) if files_of(known[target], subtasks) else None

    return frame


class GreatExpectationsValidator:
    """Validate the rows that `frames(target, subtasks, checkpoint)` returns: a DataFrame, or None if nothing is staged.

    Reports are built below `docs`, and a verdict's `docs_path` is relative to it.
    """

    def __init__(self, graph: Graph, frames: FrameReader, docs: Path) -> None:
        self._graph = graph
        self._known = {each.target: each for each in validation_targets(graph)}
        self._frames = frames
        self._docs = docs
        self._prepared: dict[tuple[Target | str, ...], Prepared | None] = {}

    def validate(
        self,
        checkpoint: CheckpointRecord,
        subtasks: Mapping[SubtaskId, SubtaskRecord],
        settled: Sequence[Verdict] = (),
    ) -> Sequence[Verdict]:
        """Return one verdict for each of `graph.targets` that is not `settled`, in that order."""
        known = {verdict.target: Section(verdict) for verdict in settled}
        open_targets = [target for target in self._graph.targets if target not in known]
        here = {target: self._validate_arrow(target, subtasks) for target in open_targets}
        validated = {target: section for target, section in here.items() if section is not None}
        left = [target for target in open_targets if target not in validated]
        reads = {target: self._read(target, subtasks, checkpoint) for target in left}
        with ThreadPoolExecutor(_AT_ONCE, "tidegate-validate") as pool:
            validated |= zip(
                left, pool.map(lambda of: self._validate_frame(of, subtasks, reads[of]), left), strict=True
            )
        path = None
        if any(section.verdict.evaluated or section.verdict.error for section in validated.values()):
            sections = known | validated
            path = self._build_docs(checkpoint, [sections[target] for target in self._graph.targets])
        return [replace(validated[target].verdict, docs_path=path) for target in open_targets]

    def _build_docs(self, checkpoint: CheckpointRecord, sections: Sequence[Section]) -> str | None:
        try:
            verdicts = [section.verdict for section in sections]
            hold_for = decide_hold(self._graph.targets, verdicts, self._graph.holds)
            return build_docs(self._docs, checkpoint, sections, hold_for)
        except Exception as error:
            # A report that cannot be written has no bearing on the data.
            log.warning("The report of checkpoint %d could not be written: %s", checkpoint.checkpoint_id, error)
            log.debug("It raised.", exc_info=True)
            return None

    def _validate_arrow(self, target: Target, subtasks: Mapping[SubtaskId, SubtaskRecord]) -> Section | None:
        """Return the verdict on a sink's staged rows if it is good and needs no Spark. `_validate_frame` reports every
        other outcome."""
        sink = self._graph.sink(target.name).sink if target.kind is TargetKind.SINK else None
        if not isinstance(sink, ArrowSink) or not (staged := files_of(self._known[target], subtasks)):
            return None
        suite = self._graph.suites[target]
        try:
            if (rows := sink.staged_rows([handle for _, handle in staged])) is None:
                return None
            types = _types_of(rows)
            shown = self._identifying(target, types)
            if (target, *shown) not in self._prepared:
                self._prepared[target, *shown] = prepare_suite(suite, shown)
            prepared = self._prepared[target, *shown]
            good = None if prepared is None else validate_arrow(rows, suite, prepared)
        except Exception:
            log.debug("Validating %s without Spark raised.", target, exc_info=True)
            return None
        return None if good is None else _section(target, suite, good[0], types, good[1])

    def _read(
        self, target: Target, subtasks: Mapping[SubtaskId, SubtaskRecord], of: CheckpointRecord
    ) -> "DataFrame | Exception | None":
        """Return the rows to validate, None if there are none, or the error if they cannot be read. Runs in one thread,
        because the first call may open a Spark session."""
        try:
            return self._frames(target, subtasks, of)
        except Exception as error:
            return error

    def _validate_frame(
        self, target: Target, subtasks: Mapping[SubtaskId, SubtaskRecord], frame: "DataFrame | Exception | None"
    ) -> Section:
        suite = self._graph.suites[target]
        try:
            if frame is None:
                return Section(Verdict(target, suite.name, success=True, evaluated=0, failed=0))
            if isinstance(frame, Exception):
                raise frame
            built, types = build(suite), {field.name: field.dataType.typeName() for field in frame.schema.fields}
            with nullcontext() if target.kind is TargetKind.SINK else _persisted(frame):
                reported, identified = self._reported(target, subtasks), MOST_ROWS if self._is_whole(target) else 0
                findings, rows = validate_frame(
                    frame, suite, built, self._identifying(target, types), reported, identified
                )
            return _section(target, suite, findings, types, rows)
        except UnavailableError:
            raise  # nothing is known about the data
        except ExpectationError as error:
            return _not_validated(
                target, suite, f"{target} was not validated, because suite {suite.name!r} is wrong: {error}"
            )
        except Exception as error:
            if is_lost(error):
                raise lost_error(str(error), f"{target} was validated") from error
            log.debug("Validating %s raised.", target, exc_info=True)
            cause = f"{type(error).__name__}: {headline(str(error))}"
            return _not_validated(target, suite, f"{target} could not be validated by suite {suite.name!r}: {cause}.")

    def _reported(self, target: Target, subtasks: Mapping[SubtaskId, SubtaskRecord]) -> int | None:
        """Return the number of rows that a sink's subtasks have staged; None for other targets."""
        if target.kind is not TargetKind.SINK:
            return None
        operator_id = self._graph.sink(target.name).operator_id
        snapshots = [record.snapshot for record in subtasks.values() if record.subtask.operator_id == operator_id]
        handles = (handle for snapshot in snapshots for handle in snapshot.handles)
        staged = [handle.rows for handle in handles if DELETES not in handle.details]
        return sum(staged) if staged else None

    def _is_whole(self, target: Target) -> bool:
        """Return whether each checkpoint validates all current rows, so that a failing row fails again. Otherwise all
        rows are new."""
        if target.kind is TargetKind.CHECK:
            sinks = next(check.sinks for check in self._graph.checks if check.name == target.name)
        else:
            sinks = (target.name,) if target.kind is TargetKind.SINK else ()
        return all(self._graph.sink(name).sink.input is SinkInput.CURRENT for name in sinks)

    def _identifying(self, target: Target, types: Mapping[str, str]) -> list[str]:
        """Return the columns that identify a failing row: the operator's key if there is one, else the first simple
        columns. `types` are Spark's names for the types of all columns."""
        operator = self._graph.sink(target.name).input.origin if target.kind is TargetKind.SINK else target.name
        keys = (
            {} if target.kind is TargetKind.CHECK else {vertex.name: vertex.state_key for vertex in self._graph.keyed}
        )
        if present := [column for column in keys.get(operator, ()) if column in types]:
            return present
        return [column for column, kind in types.items() if kind not in _NESTED][:_SHOWN_COLUMNS]


def _types_of(rows: ArrowRows) -> dict[str, str]:
    """Return the names of the types with which Spark reads the columns."""
    # pyspark is heavy, and with good rows it is needed for nothing else here.
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
    return {field.name: field.dataType.typeName() for field in schema.fields}


def _section(
    target: Target, suite: ExpectationSuite, findings: Sequence[Finding], types: Mapping[str, str], rows: int
) -> Section:
    moments = [column for column, kind in types.items() if kind == "timestamp"]
    results = tuple(result_object(finding, target, list(types), moments) for finding in findings)
    errors = [result["error"] for result in results if result["error"]]
    failed = sum(result["success"] is not True for result in results)
    verdict = Verdict(
        target,
        suite.name,
        success=None if errors else not failed,
        evaluated=len(results),
        failed=failed,
        results=results,
        error=" ".join(errors) or None,
    )
    return Section(verdict, rows, tuple(findings))


def _not_validated(target: Target, suite: ExpectationSuite, error: str) -> Section:
    return Section(Verdict(target, suite.name, success=None, evaluated=0, failed=0, error=error))


@contextmanager
def _persisted(frame: "DataFrame") -> Iterator[None]:
    """Compute the DataFrame once for all expectations. Leave a DataFrame that is already persisted as it is.

    This is for state, which is merged from its runs, and for a check's query. Staged rows of a sink lie in files whose
    columns are read as needed, which takes less time than caching all of them.
    """
    level = frame.storageLevel
    if level.useMemory or level.useDisk:
        yield
        return
    frame.persist()
    try:
        yield
    finally:
        # If the session is gone, so is its cache, and the error to report is the one that ended it.
        with suppress(Exception):
            frame.unpersist()
