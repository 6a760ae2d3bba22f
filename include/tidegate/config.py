"""How a pipeline's checkpoints behave: Flink's options that make sense here (protocol.md section 21)."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from tidegate.durations import duration
from tidegate.protocol.errors import PipelineDefinitionError

MAX_MIN_PAUSE = timedelta(days=365)
MIN_TIMEOUT = timedelta(milliseconds=10)


class CheckpointRetention(StrEnum):
    """What becomes of the retained checkpoints when the pipeline is cancelled (protocol.md section 9)."""

    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"  # deleted
    DELETE_ON_CANCELLATION = (
        "DELETE_ON_CANCELLATION"  # deleted, too: a failed pipeline keeps its checkpoints here anyway
    )
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"  # kept


@dataclass(frozen=True, slots=True, init=False)
class CheckpointConfig:
    """`timeout`: until every subtask must have acknowledged. `min_pause`: from the last success to the next periodic
    checkpoint. `max_concurrent`: checkpoints in progress at once. `retained`: completed ones whose state is kept.
    `retention`: what becomes of those when the pipeline is cancelled. `tolerable_failed_checkpoints`: how many may fail in
    a row before the pipeline fails and waits for `tidegate resume`; None: any number, because the next DAG run is a restart
    anyway. `validation_failures_count`: whether failed expectations are among those. `allow_non_restored_state`: state and
    positions of operators that the pipeline no longer has are given up, instead of being an error.
    `checkpoints_after_tasks_finish`: whether the others go on when a bounded source has been read to its end.
    """

    timeout: timedelta
    min_pause: timedelta
    max_concurrent: int
    retained: int
    retention: CheckpointRetention
    tolerable_failed_checkpoints: int | None
    validation_failures_count: bool
    allow_non_restored_state: bool
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
        checkpoints_after_tasks_finish: bool = True,
    ) -> None:
        set_ = object.__setattr__
        set_(self, "timeout", duration(timeout))
        set_(self, "min_pause", min(duration(min_pause), MAX_MIN_PAUSE))
        set_(self, "max_concurrent", max_concurrent)
        set_(self, "retained", max(retained, 1))  # values <= 0 fall back to 1 (protocol.md section 9)
        set_(self, "retention", _retention(retention))
        set_(self, "tolerable_failed_checkpoints", tolerable_failed_checkpoints)
        set_(self, "validation_failures_count", validation_failures_count)
        set_(self, "allow_non_restored_state", allow_non_restored_state)
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


def _retention(retention: CheckpointRetention | str) -> CheckpointRetention:
    try:
        return CheckpointRetention(retention)
    except ValueError:
        known = ", ".join(CheckpointRetention)
        raise PipelineDefinitionError(f"CheckpointConfig.retention is one of {known}, not {retention!r}.") from None
