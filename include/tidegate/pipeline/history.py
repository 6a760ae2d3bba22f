"""The retention of the details of a pipeline's checkpoints."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tidegate.protocol.cleaning.rollup import HistoryRule
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.text.durations import duration


@dataclass(frozen=True)
class CheckpointHistory:
    """The retention of subtasks, files and metrics of ended checkpoints as records of their own.

    After that, a checkpoint has their sums per operator. Savepoints and checkpoints whose state is retained keep all
    details.

    Args:
        checkpoints: The number of newest checkpoints that keep their details. None for no bound.
        age: The maximum age of details, such as `"7 d"`. None for no bound.

    Raises:
        PipelineDefinitionError: If `checkpoints` is less than 1, or `age` is not a positive duration.
    """

    checkpoints: int | None = 10_000
    age: str | timedelta | None = "7 d"

    def __post_init__(self) -> None:
        number = self.checkpoints
        if number is not None and (type(number) is not int or number < 1):
            raise _wrong(f"checkpoints is {number!r}, but must be a number of at least 1, or None for no bound")
        try:
            age = None if self.age is None else duration(self.age)
        except PipelineDefinitionError as error:
            raise _wrong(f"age: {str(error).rstrip('.')}") from None
        if age is not None and age <= timedelta(0):
            raise _wrong(f"age is {self.age!r}, but must be longer than 0 s, or None for no limit")
        object.__setattr__(self, "age", age)

    def rule(self) -> HistoryRule:
        assert not isinstance(self.age, str)
        return HistoryRule(self.checkpoints, self.age)

    def describe(self) -> dict[str, Any]:
        """Return the options as JSON, the age in milliseconds."""
        age = self.rule().age
        return {"checkpoints": self.checkpoints, "age": None if age is None else age // timedelta(milliseconds=1)}


def _wrong(what: str) -> PipelineDefinitionError:
    return PipelineDefinitionError(f"CheckpointConfig.history: CheckpointHistory.{what}.")
