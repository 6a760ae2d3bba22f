"""How a pipeline's checkpoints behave: Flink's options that make sense here (protocol.md section 21)."""

from dataclasses import dataclass, fields
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeVar

from tidegate.pipeline.durations import duration
from tidegate.protocol.barriers.options import GateOptions
from tidegate.protocol.errors import PipelineDefinitionError
from tidegate.protocol.schedule import OFF

MAX_MIN_PAUSE = timedelta(days=365)
MIN_TIMEOUT = MIN_INTERVAL = timedelta(milliseconds=10)

_Option = TypeVar("_Option", bound=StrEnum)


class CheckpointingMode(StrEnum):
    """How often a row counts in state after a failure (protocol.md section 17)."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"  # nothing is held back at a barrier, so what follows it may count twice


class CheckpointRetention(StrEnum):
    """What becomes of the retained checkpoints when the pipeline is cancelled (protocol.md section 9)."""

    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"  # deleted
    DELETE_ON_CANCELLATION = (
        "DELETE_ON_CANCELLATION"  # deleted, too: a failed pipeline keeps its checkpoints here anyway
    )
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"  # kept


@dataclass(frozen=True, slots=True, init=False)
class CheckpointConfig:
    """`timeout`: how long until every subtask must have acknowledged. `min_pause`: from the last success to the next
    periodic checkpoint. `max_concurrent`: checkpoints in progress at once. `retained`: completed ones whose state is
    kept. `retention`: what becomes of those when the pipeline is cancelled. `tolerable_failed_checkpoints`: how many
    may fail in a row before the pipeline fails and waits for `tidegate resume`; None: any number, because the next DAG
    run is a restart anyway. `validation_failures_count`: whether failed validations count as well.
    `allow_non_restored_state`: state and positions of operators that the pipeline no longer has are dropped, instead of
    being an error. `checkpoints_after_tasks_finish`: whether checkpoints go on when a bounded source has been read to
    its end.

    `interval`: between the periodic checkpoints of a continuous run, None for none; a scheduled pipeline's interval is
    its DAG's schedule. `interval_during_backlog`: the same while a source is behind, "0 s" for none meanwhile. Both are
    never shorter than `min_pause`. `mode`: how often a row counts. `unaligned`: barriers overtake the data before them,
    which becomes part of the checkpoint; with an `aligned_checkpoint_timeout` only if waiting takes longer than that.
    `alignment_limit`: how many bytes may queue behind the barriers of an operator before its checkpoint is aborted.
    """

    timeout: timedelta
    min_pause: timedelta
    max_concurrent: int
    retained: int
    retention: CheckpointRetention
    tolerable_failed_checkpoints: int | None
    validation_failures_count: bool
    allow_non_restored_state: bool
    mode: CheckpointingMode
    interval: timedelta | None
    interval_during_backlog: timedelta | None
    unaligned: bool
    aligned_checkpoint_timeout: timedelta
    alignment_limit: int | None
    checkpoints_after_tasks_finish: bool

    def __init__(
        self,
        timeout: str | timedelta = "10 min",
        min_pause: str | timedelta = "0 s",
        max_concurrent: int = 1,
        retained: int = 1,
        retention: CheckpointRetention | str = CheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
        tolerable_failed_checkpoints: int | None = None,
        validation_failures_count: bool = True,
        allow_non_restored_state: bool = False,
        mode: CheckpointingMode | str = CheckpointingMode.EXACTLY_ONCE,
        interval: str | timedelta | None = None,
        interval_during_backlog: str | timedelta | None = None,
        unaligned: bool = False,
        aligned_checkpoint_timeout: str | timedelta = "0 s",
        alignment_limit: int | None = None,
        checkpoints_after_tasks_finish: bool = True,
    ) -> None:
        set_ = object.__setattr__
        set_(self, "timeout", duration(timeout))
        set_(self, "min_pause", min(duration(min_pause), MAX_MIN_PAUSE))
        set_(self, "max_concurrent", max_concurrent)
        set_(self, "retained", max(retained, 1))  # values <= 0 fall back to 1 (protocol.md section 9)
        set_(self, "retention", _one_of(CheckpointRetention, "retention", retention))
        set_(self, "tolerable_failed_checkpoints", tolerable_failed_checkpoints)
        set_(self, "validation_failures_count", validation_failures_count)
        set_(self, "allow_non_restored_state", allow_non_restored_state)
        set_(self, "mode", _one_of(CheckpointingMode, "mode", mode))
        set_(self, "unaligned", unaligned)
        set_(self, "aligned_checkpoint_timeout", duration(aligned_checkpoint_timeout))
        set_(self, "alignment_limit", alignment_limit)
        set_(self, "checkpoints_after_tasks_finish", checkpoints_after_tasks_finish)
        if self.timeout < MIN_TIMEOUT:
            raise PipelineDefinitionError("CheckpointConfig.timeout must be at least 10 ms.")
        if self.min_pause < timedelta(0):
            raise PipelineDefinitionError("CheckpointConfig.min_pause must not be negative.")
        if max_concurrent != 1:
            raise PipelineDefinitionError(
                "CheckpointConfig.max_concurrent must be 1: a scheduled run is one checkpoint, and the next one starts "
                "from its state."
            )
        if tolerable_failed_checkpoints is not None and tolerable_failed_checkpoints < 0:
            raise PipelineDefinitionError("CheckpointConfig.tolerable_failed_checkpoints must be 0 or more, or None.")
        base, during_backlog = _intervals(interval, interval_during_backlog, self.min_pause)
        set_(self, "interval", base)
        set_(self, "interval_during_backlog", during_backlog)
        self.gate_options()  # raises if the options contradict each other

    def gate_options(self) -> GateOptions:
        """The options of the pipeline's input gates and barriers."""
        return GateOptions(
            exactly_once=self.mode is CheckpointingMode.EXACTLY_ONCE,
            unaligned=self.unaligned,
            aligned_timeout=self.aligned_checkpoint_timeout // timedelta(milliseconds=1),
            alignment_limit=self.alignment_limit,
            checkpoints_after_tasks_finish=self.checkpoints_after_tasks_finish,
        )

    def describe(self) -> dict[str, Any]:
        """The options in effect, as JSON for people and for the checkpoint's metadata; durations in milliseconds."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: _milliseconds(v) if isinstance(v, timedelta) else v for name, v in values.items()}


def _intervals(
    interval: str | timedelta | None, during_backlog: str | timedelta | None, min_pause: timedelta
) -> tuple[timedelta | None, timedelta | None]:
    """The periodic intervals in effect: without a backlog, and with one."""
    if interval is None:
        if during_backlog is not None:
            raise PipelineDefinitionError(
                "CheckpointConfig.interval_during_backlog has no effect without an interval. Set interval too."
            )
        return None, None
    asked = duration(interval)
    if asked < MIN_INTERVAL:
        raise PipelineDefinitionError("CheckpointConfig.interval must be at least 10 ms, or None for no periodic ones.")
    base = max(asked, min_pause)
    if during_backlog is None:
        return base, base
    slower = duration(during_backlog)
    if slower != OFF and slower < asked:
        raise PipelineDefinitionError(
            "CheckpointConfig.interval_during_backlog must be at least the interval, or '0 s' for no periodic "
            "checkpoints while a source is behind."
        )
    return base, slower if slower == OFF else max(slower, base)


def _milliseconds(value: timedelta) -> int:
    return value // timedelta(milliseconds=1)


def _one_of(kind: type[_Option], option: str, value: str) -> _Option:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(kind)
        raise PipelineDefinitionError(f"CheckpointConfig.{option} is one of {known}, not {value!r}.") from None
