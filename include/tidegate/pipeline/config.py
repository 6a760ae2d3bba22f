"""The options of a pipeline's checkpoints: the options of Flink that apply here (protocol.md section 21).

Each option is declared in one place with its name, type, bounds, default and description.
"""

from dataclasses import fields
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from tidegate.pipeline.history import CheckpointHistory
from tidegate.pipeline.options import Duration, OneOf, OptionalDuration, default, must, refusal
from tidegate.protocol.barriers.options import GateOptions
from tidegate.protocol.cleaning.retention import RetentionRule
from tidegate.protocol.cleaning.rollup import HistoryRule
from tidegate.protocol.continuous.schedule import OFF
from tidegate.protocol.facts.errors import PipelineDefinitionError

MAX_MIN_PAUSE = timedelta(days=365)
MIN_TIMEOUT = MIN_INTERVAL = timedelta(milliseconds=10)


class CheckpointingMode(StrEnum):
    """The guarantee for state: how often a row counts after a failure (protocol.md section 17).

    Attributes:
        EXACTLY_ONCE: Every row counts once.
        AT_LEAST_ONCE: Rows are not held back at a barrier, so the rows behind it may count twice.
    """

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


class CheckpointRetention(StrEnum):
    """Whether retained checkpoints survive the cancellation of the pipeline (protocol.md section 9).

    Attributes:
        NO_EXTERNALIZED_CHECKPOINTS: They are deleted.
        RETAIN_ON_CANCELLATION: They are kept.
    """

    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class CheckpointConfig:
    """The options of a pipeline's checkpoints. Durations are written `"10 min"`, or as a `timedelta`.

    Raises:
        PipelineDefinitionError: If an option is unknown, of a wrong type or out of range, or if options contradict each
            other.

    Example:
        ```python
        from tidegate import CheckpointConfig, Pipeline

        pipeline = Pipeline("shop", checkpoints=CheckpointConfig(timeout="5 min", retained=3, stale_after="2 h"))
        ```
    """

    timeout: Annotated[Duration, must(lambda t: t >= MIN_TIMEOUT, "must be at least 10 ms.")] = default("10 min")
    """The time within which every subtask must acknowledge. A checkpoint that takes longer is aborted."""

    min_pause: Annotated[
        Duration,
        AfterValidator(lambda pause: min(pause, MAX_MIN_PAUSE)),
        must(lambda pause: pause >= timedelta(0), "must not be negative."),
    ] = default("0 s")
    """The pause between a completed checkpoint and the next periodic one."""

    max_concurrent: Annotated[int, must(lambda number: number >= 1, "must be at least 1.")] = 1
    """The maximum number of checkpoints of a continuous run in progress at once, besides savepoints. A scheduled run
    takes one at a time, because it starts from the state of the last one."""

    retained: Annotated[int, AfterValidator(lambda number: max(number, 1))] = 1
    """The number of completed checkpoints whose state is kept. Values <= 0 count as 1 (protocol.md section 9)."""

    retained_for: Annotated[Duration, must(lambda t: t >= timedelta(0), "must not be negative.")] = default("0 s")
    """The minimum time for which the state of a completed checkpoint is kept, even beyond that number."""

    retention: OneOf[CheckpointRetention] = default(CheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS)
    """Whether retained checkpoints are deleted or kept when the pipeline is cancelled."""

    undo_within: Annotated[Duration, must(lambda t: t >= timedelta(0), "must not be negative.")] = default("7 d")
    """How long the checkpoints that a restore abandoned, and the rows it withdrew, are kept to undo the restore."""

    history: CheckpointHistory | None = CheckpointHistory()
    """How long the subtasks, files and metrics of ended checkpoints stay on record one by one. None: for ever."""

    tolerable_failed_checkpoints: Annotated[
        int | None, must(lambda number: number is None or number >= 0, "must be 0 or more, or None.")
    ] = None
    """The number of consecutive checkpoints that may fail before the pipeline fails and waits for `tidegate resume`.
    None: any number, because the next DAG run is a restart anyway."""

    validation_failures_count: bool = True
    """Whether failed validations count as failed checkpoints here."""

    allow_non_restored_state: bool = False
    """Whether state and positions of operators that the pipeline no longer has are dropped. By default an error."""

    mode: OneOf[CheckpointingMode] = default(CheckpointingMode.EXACTLY_ONCE)
    """How often a row counts in state after a failure."""

    interval: Annotated[
        OptionalDuration,
        must(
            lambda every: every is None or every >= MIN_INTERVAL,
            "must be at least 10 ms, or None for no periodic ones.",
        ),
    ] = default(None)
    """The interval of the periodic checkpoints of a continuous run, never shorter than `min_pause`. None: no periodic
    checkpoints. A scheduled pipeline's interval is its DAG's schedule."""

    interval_during_backlog: OptionalDuration = default(None)
    """The interval while a source is behind; "0 s" for no periodic checkpoints meanwhile. None: same as `interval`."""

    unaligned: bool = False
    """Whether barriers overtake the data before them. That data becomes part of the checkpoint."""

    aligned_checkpoint_timeout: Duration = default("0 s")
    """With `unaligned`, how long an operator waits for its barriers before they overtake."""

    alignment_limit: int | None = None
    """The maximum number of bytes queued behind an operator's barriers before its checkpoint is aborted. None: any."""

    checkpoints_after_tasks_finish: bool = True
    """Whether checkpoints continue after a bounded source has been read to its end."""

    stale_after: Annotated[
        OptionalDuration, must(lambda t: t is None or t > timedelta(0), "must be longer than 0 s, or None.")
    ] = default(None)
    """The time without a completed checkpoint after which the pipeline is reported as stale. None: never."""

    @model_validator(mode="wrap")
    @classmethod
    def _refuse(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(given)
        except ValidationError as error:
            raise refusal(error, [option.name for option in fields(cls)]) from None

    def __post_init__(self) -> None:
        for name, value in _intervals(self.interval, self.interval_during_backlog, self.min_pause).items():
            object.__setattr__(self, name, value)
        self.gate_options()  # raises if the options contradict each other
        if self.unaligned and self.max_concurrent > 1:
            raise PipelineDefinitionError(
                "CheckpointConfig.unaligned needs max_concurrent=1: the data that a barrier overtakes becomes part of "
                "its checkpoint, and must not contain the barrier of another one. Change one of the two."
            )

    def gate_options(self) -> GateOptions:
        """Return the options of the pipeline's input gates and barriers."""
        return GateOptions(
            exactly_once=self.mode is CheckpointingMode.EXACTLY_ONCE,
            unaligned=self.unaligned,
            aligned_timeout=self.aligned_checkpoint_timeout // timedelta(milliseconds=1),
            alignment_limit=self.alignment_limit,
            checkpoints_after_tasks_finish=self.checkpoints_after_tasks_finish,
        )

    def retention_rule(self) -> RetentionRule:
        """Return the rule that selects the completed checkpoints to keep, and for how long."""
        return RetentionRule(self.retained, self.retained_for, self.undo_within)

    def history_rule(self) -> HistoryRule | None:
        """Return how long the details of checkpoints stay on record; None for ever."""
        return None if self.history is None else self.history.rule()

    def describe(self) -> dict[str, Any]:
        """Return the options in effect as JSON for people and for the checkpoint's metadata, durations in
        milliseconds."""
        return {each.name: _described(getattr(self, each.name)) for each in fields(self)}


def _intervals(interval: timedelta | None, during_backlog: timedelta | None, min_pause: timedelta) -> dict[str, Any]:
    """Return the periodic intervals in effect, without a backlog and with one."""
    if interval is None:
        if during_backlog is not None:
            raise PipelineDefinitionError(
                "CheckpointConfig.interval_during_backlog has no effect without an interval. Set interval too."
            )
        return {}
    base = slower = max(interval, min_pause)
    if during_backlog is not None:
        if during_backlog != OFF and during_backlog < interval:
            raise PipelineDefinitionError(
                "CheckpointConfig.interval_during_backlog must be at least the interval, or '0 s' for no periodic "
                "checkpoints while a source is behind."
            )
        slower = during_backlog if during_backlog == OFF else max(during_backlog, base)
    return {"interval": base, "interval_during_backlog": slower}


def _described(value: object) -> Any:
    if isinstance(value, CheckpointHistory):
        return value.describe()
    return _milliseconds(value) if isinstance(value, timedelta) else value


def _milliseconds(value: timedelta) -> int:
    return value // timedelta(milliseconds=1)
