"""`edit` and `create` collect a user's changes, and `SavepointEdit.write` makes a savepoint of them."""

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from tidegate import assembly
from tidegate.clock import SystemClock
from tidegate.coordination.recovery.editing import Changes, Editing
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.errors import ConfigurationError, SavepointEditError
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.observing.actions import ActionKind
from tidegate.protocol.recovery.editing import Base
from tidegate.quality.validator import GreatExpectationsValidator
from tidegate.settings import Settings, absolute
from tidegate.spark.editor import SparkEditor
from tidegate.spark.region import SparkRegion
from tidegate.spark.session.sessions import SparkSettings, open_session
from tidegate.state.storage import ArrowCheckpointStorage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The directory of reports on edited savepoints, below that of all reports. No pipeline's name begins so.
_REPORTS = "_edits"


@dataclass(frozen=True, slots=True)
class Written:
    """A written savepoint. `tidegate restore PIPELINE --from URL` goes back to it.

    Attributes:
        url: Its directory.
        checkpoint_id: The checkpoint that the pipeline goes back to, with this state.
        bytes: The size of its files.
    """

    url: str
    checkpoint_id: int
    bytes: int


def edit(
    pipeline: Pipeline | str,
    *,
    savepoint: str | None = None,
    checkpoint: int | None = None,
    from_url: str | None = None,
    spark: "SparkSession | None" = None,
) -> "SavepointEdit":
    """Begin an edit of a savepoint or checkpoint, by default of the latest completed checkpoint. The original stays
    unchanged. See docs/how-to/edit-state.md.

    Args:
        pipeline: Its definition, or a name as on the command line.
        savepoint: The name or number of a savepoint.
        checkpoint: The id of a checkpoint.
        from_url: The directory of a canonical savepoint, a path or URL.
        spark: A session, by default one of its own.

    Returns:
        The changes, which are collected until they are written.

    Raises:
        ConfigurationError: If more than one of `savepoint`, `checkpoint` and `from_url` is given.
        CheckpointNotFoundError: If there is no such savepoint or checkpoint.
        CheckpointNotRetainedError: If its state is not kept any more.
        PipelineIdentityError: If the definition is not that of the recorded pipeline.
        RestoreRefusedError: If the directory is no savepoint.
    """
    if (savepoint is not None) + (checkpoint is not None) + (from_url is not None) > 1:
        raise ConfigurationError(
            "Give only one of savepoint=NAME, checkpoint=ID and from_url=URL. Nothing was written."
        )
    coordinator = assembly.open_coordinator(defined := _defined(pipeline))
    if from_url is not None:
        base = coordinator.editing.of_directory(absolute(from_url))
    else:
        wanted = checkpoint if savepoint is None else coordinator.savepoints.find(savepoint).checkpoint_id
        base = coordinator.editing.of_checkpoint(wanted)
    return SavepointEdit(coordinator.editing, base, _region(defined, spark))


def create(pipeline: Pipeline | str, *, spark: "SparkSession | None" = None) -> "SavepointEdit":
    """Begin the first savepoint of a pipeline that never ran. Its state is the given rows, and its sources begin at
    their start.

    Args:
        pipeline: Its definition, or a name as on the command line.
        spark: A session, by default one of its own.

    Returns:
        The changes, which are collected until they are written.

    Raises:
        SavepointEditError: If the database knows checkpoints of the pipeline.
    """
    coordinator = assembly.open_coordinator(defined := _defined(pipeline))
    return SavepointEdit(coordinator.editing, coordinator.editing.of_nothing(), _region(defined, spark))


def _region(pipeline: Pipeline, spark: "SparkSession | None") -> SparkRegion:
    settings = Settings.from_environment()
    session = spark or open_session(SparkSettings.from_environment())
    return SparkRegion(
        compile_graph(pipeline), session, ArrowCheckpointStorage(settings.storage), SystemClock(), settings
    )


def _defined(pipeline: Pipeline | str) -> Pipeline:
    return assembly.load_pipeline(pipeline) if isinstance(pipeline, str) else pipeline


class SavepointEdit:
    """Changes to the state of operators, begun by `edit` or `create`. Nothing is written before `write`.

    Rows are Spark DataFrames with the columns of an operator's state: its key, and its values. The values of a declared
    aggregate are its accumulators. Mostly this is the aggregate under its own name. An average has `_sum_NAME` and
    `_count_NAME` instead, a `count_distinct` the array `_values_NAME`, and an approximate aggregate the binary
    `_sketch_NAME`. `min_by`, `max_by` and a `collect_list` with `by` also have `_by_NAME`. A key may be given once.
    """

    def __init__(self, editing: Editing, base: Base, region: SparkRegion) -> None:
        self._editing = editing
        self._base = base
        self._graph = region.graph
        self._pipeline_id = region.graph.pipeline.name
        self._editor = SparkEditor(region, base)
        self._rows: dict[str, list[Any]] = {}
        self._replaced: dict[str, bool] = {}
        self._changes: list[str] = []

    def upsert(self, operator: str, rows: "DataFrame") -> "SavepointEdit":
        """Replace the rows of existing keys, and add those of new keys.

        Args:
            operator: The operator.
            rows: The rows, in the columns of its state.

        Returns:
            These changes.

        Raises:
            SavepointEditError: If the rows or the operator do not fit the pipeline.
        """
        return self._change(operator, rows, "rows were replaced or added")

    def remove(self, operator: str, keys: "DataFrame") -> "SavepointEdit":
        """Remove keys. Missing keys are ignored.

        Args:
            operator: The operator.
            keys: The keys: the columns of the key alone.

        Returns:
            These changes.

        Raises:
            SavepointEditError: If the keys or the operator do not fit the pipeline.
        """
        return self._change(operator, keys, "keys were removed", removed=True)

    def replace(self, operator: str, rows: "DataFrame") -> "SavepointEdit":
        """Replace the whole state of an operator.

        Args:
            operator: The operator.
            rows: All its rows, in the columns of its state.

        Returns:
            These changes.

        Raises:
            SavepointEditError: If the operator also has other changes, or if the rows do not fit.
        """
        if operator in self._replaced:
            raise self._twice(operator)
        return self._change(operator, rows, "the whole state was replaced", whole=True)

    def _change(
        self, operator: str, rows: "DataFrame", what: str, removed: bool = False, whole: bool = False
    ) -> "SavepointEdit":
        keyed = [vertex.name for vertex in self._graph.keyed]
        if operator not in keyed:
            raise SavepointEditError(
                f"Pipeline {self._pipeline_id} has no operator {operator!r} with keyed state. Nothing was written. It "
                f"has: {', '.join(keyed) or 'none'}."
            )
        if self._replaced.get(operator):
            raise self._twice(operator)
        checked = self._editor.checked(operator, rows, removed)
        self._rows.setdefault(operator, []).append(checked)
        self._replaced[operator] = whole
        self._changes += [] if (change := f"{operator}: {what}") in self._changes else [change]
        return self

    def _twice(self, operator: str) -> SavepointEditError:
        return SavepointEditError(
            f"Operator {operator} of pipeline {self._pipeline_id} is given its whole state, and other changes. Nothing "
            "was written. Put the changes into the rows of the whole state."
        )

    def write(self, to: str, *, name: str | None = None, note: str | None = None) -> Written:
        """Write the savepoint, in the columns, the parallelism and the key groups of the definition.

        State and tables of current rows are validated by the pipeline's expectations first.

        Args:
            to: The directory, a path or URL. It must be empty, or must not exist yet.
            name: The name of the savepoint.
            note: Its purpose.

        Returns:
            The savepoint.

        Raises:
            SavepointEditError: If the edited savepoint cannot be written. Nothing is left in the directory.
            ValidationFailedError: If it does not meet the expectations. Nothing is left in the directory.
        """
        location = absolute(to)
        docs = Settings.from_environment().docs / _REPORTS
        validator = GreatExpectationsValidator(
            self._graph, lambda target, subtasks, of: self._editor.frame(location, target, subtasks, of), docs
        )
        rows = {
            operator: reduce(lambda one, other: one.unionAll(other), given) for operator, given in self._rows.items()
        }
        changes = Changes(rows, self._replaced, tuple(self._changes))
        label = Label(name, note)
        action = assembly.new_action(ActionKind.REWRITE, origin=self._base.origin, to=location, name=name, note=note)
        by = action.actor.name
        marker = self._editing.write(self._base, location, by, changes, self._editor, validator, label, action)
        return Written(location, marker.checkpoint_id, marker.bytes)
