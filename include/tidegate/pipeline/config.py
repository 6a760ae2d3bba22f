"""How a pipeline's checkpoints behave: Flink's options that make sense here (protocol.md section 21).

Each option is said once: its name, what it may be and its default, and below them what it is for.
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
    """How often a row counts in state after a failure (protocol.md section 17).

    Attributes:
        EXACTLY_ONCE: Once.
        AT_LEAST_ONCE: Nothing is held back at a barrier, so what follows it may count twice.
    """

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


class CheckpointRetention(StrEnum):
    """What becomes of the retained checkpoints when the pipeline is cancelled (protocol.md section 9).

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
        PipelineDefinitionError: For an option that is unknown, of a wrong type or out of range, and for options that
            contradict each other.

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
    """The number of checkpoints of a continuous run in progress at once, besides savepoints. A scheduled run takes one
    at a time: it starts from the state of the last one."""

    retained: Annotated[int, AfterValidator(lambda number: max(number, 1))] = 1
    """The number of completed checkpoints whose state is kept. Values <= 0 fall back to 1 (protocol.md section 9)."""

    retained_for: Annotated[Duration, must(lambda t: t >= timedelta(0), "must not be negative.")] = default("0 s")
    """How long the state of each is kept since it completed, also beyond that number."""

    retention: OneOf[CheckpointRetention] = default(CheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS)
    """What becomes of retained checkpoints when the pipeline is cancelled."""

    undo_within: Annotated[Duration, must(lambda t: t >= timedelta(0), "must not be negative.")] = default("7 d")
    """How long checkpoints that a restore left behind, and the rows it withdrew, are kept so that it can be undone."""

    history: CheckpointHistory | None = CheckpointHistory()
    """How long subtasks, files and metrics of checkpoints that have ended stay on record one by one. None: for ever."""

    tolerable_failed_checkpoints: Annotated[
        int | None, must(lambda number: number is None or number >= 0, "must be 0 or more, or None.")
    ] = None
    """The number of checkpoints that may fail in a row before the pipeline fails and waits for `tidegate resume`. None:
    any number, because the next DAG run is a restart anyway."""

    validation_failures_count: bool = True
    """Whether failed validations are counted among these."""

    allow_non_restored_state: bool = False
    """Whether state and positions of operators that the pipeline no longer has are dropped, instead of an error."""

    mode: OneOf[CheckpointingMode] = default(CheckpointingMode.EXACTLY_ONCE)
    """How often a row counts in state after a failure."""

    interval: Annotated[
        OptionalDuration,
        must(
            lambda every: every is None or every >= MIN_INTERVAL,
            "must be at least 10 ms, or None for no periodic ones.",
        ),
    ] = default(None)
    """The interval of the periodic checkpoints of a continuous run, never shorter than `min_pause`. None: there are
    none. A scheduled pipeline's interval is its DAG's schedule."""

    interval_during_backlog: OptionalDuration = default(None)
    """The interval while a source is behind; "0 s" for no periodic checkpoints meanwhile. None: as `interval`."""

    unaligned: bool = False
    """Whether barriers overtake the data before them, which becomes part of the checkpoint."""

    aligned_checkpoint_timeout: Duration = default("0 s")
    """With `unaligned`: barriers overtake only where waiting for them takes longer than this."""

    alignment_limit: int | None = None
    """The bytes that may queue behind an operator's barriers before its checkpoint is aborted. None: any number."""

    checkpoints_after_tasks_finish: bool = True
    """Whether checkpoints go on when a bounded source has been read to its end."""

    stale_after: Annotated[
        OptionalDuration, must(lambda t: t is None or t > timedelta(0), "must be longer than nothing, or None.")
    ] = default(None)
    """The time without a completed checkpoint after which the pipeline is stale, which is reported. None: never."""

    @model_validator(mode="wrap")
    @classmethod
    def _refuse(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(given)
        except ValidationError as error:
            raise refusal(error, [each.name for each in fields(cls)]) from None

    def __post_init__(self) -> None:
        for name, value in _intervals(self.interval, self.interval_during_backlog, self.min_pause).items():
            object.__setattr__(self, name, value)
        self.gate_options()  # raises if the options contradict each other
        if self.unaligned and self.max_concurrent > 1:
            raise PipelineDefinitionError(
                "CheckpointConfig.unaligned needs max_concurrent=1: what a barrier overtakes becomes part of its "
                "checkpoint, and may not hold the barrier of another one. Change one of the two."
            )

    def gate_options(self) -> GateOptions:
        """The options of the pipeline's input gates and barriers."""
        return GateOptions(
            exactly_once=self.mode is CheckpointingMode.EXACTLY_ONCE,
            unaligned=self.unaligned,
            aligned_timeout=self.aligned_checkpoint_timeout // timedelta(milliseconds=1),
            alignment_limit=self.alignment_limit,
            checkpoints_after_tasks_finish=self.checkpoints_after_tasks_finish,
        )

    def retention_rule(self) -> RetentionRule:
        """Which completed checkpoints are kept, and for how long."""
        return RetentionRule(self.retained, self.retained_for, self.undo_within)

    def history_rule(self) -> HistoryRule | None:
        """How long what belongs to checkpoints stays on record; None for ever."""
        return None if self.history is None else self.history.rule()

    def describe(self) -> dict[str, Any]:
        """The options in effect, as JSON for people and for the checkpoint's metadata; durations in milliseconds."""
        return {each.name: _described(getattr(self, each.name)) for each in fields(self)}


def _intervals(asked: timedelta | None, during_backlog: timedelta | None, min_pause: timedelta) -> dict[str, Any]:
    """The periodic intervals in effect, without a backlog and with one."""
    if asked is None:
        if during_backlog is not None:
            raise PipelineDefinitionError(
                "CheckpointConfig.interval_during_backlog has no effect without an interval. Set interval too."
            )
        return {}
    base = slower = max(asked, min_pause)
    if during_backlog is not None:
        if during_backlog != OFF and during_backlog < asked:
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
