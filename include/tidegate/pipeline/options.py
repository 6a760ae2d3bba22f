"""Types and errors of the options of `CheckpointConfig`. Users do not see the pydantic behind it: every
mistake is a `PipelineDefinitionError` that names the option and the value."""

from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidationInfo

from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.text.durations import duration

_Choice = TypeVar("_Choice", bound=StrEnum)
_Written = TypeVar("_Written", contravariant=True)
_Read = TypeVar("_Read", covariant=True)


def default(value: Any) -> Any:
    """Declare the default of an option, written as a user would write it."""
    return Field(default=value, validate_default=True)


def must(hold: Callable[[Any], bool], sentence: str) -> AfterValidator:
    """Refuse a value for which `hold` is false. The sentence follows the name of the option."""

    def check(value: Any, info: ValidationInfo) -> Any:
        if not hold(value):
            raise PipelineDefinitionError(f"CheckpointConfig.{info.field_name} {sentence}")
        return value

    return AfterValidator(check)


def refusal(error: ValidationError, options: list[str]) -> PipelineDefinitionError:
    """Return the error for values of a wrong type, and for unknown options."""
    return PipelineDefinitionError(" ".join(_sentence(details, options) for details in error.errors(include_url=False)))


def _sentence(error: Any, options: list[str]) -> str:
    option, given = error["loc"][0], f"(given: {error['input']!r})"
    if error["type"] == "unexpected_keyword_argument":
        return f"CheckpointConfig has no option {option} {given}. It has {', '.join(options)}."
    return f"CheckpointConfig.{option}: {error['msg']} {given}."


def _duration(value: Any, info: ValidationInfo) -> timedelta:
    try:
        return duration(value)
    except PipelineDefinitionError as error:
        raise PipelineDefinitionError(f"CheckpointConfig.{info.field_name}: {error}") from None


def _optional_duration(value: Any, info: ValidationInfo) -> timedelta | None:
    return None if value is None else _duration(value, info)


def _one_of(kind: type[_Choice], value: Any, info: ValidationInfo) -> _Choice:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(kind)
        raise PipelineDefinitionError(
            f"CheckpointConfig.{info.field_name} must be one of {known}, not {value!r}."
        ) from None


if TYPE_CHECKING:

    class _Option(Generic[_Written, _Read]):
        """The types for a type checker: an option may be written in another type than it is read."""

        def __get__(self, config: object, of: type | None = None) -> _Read: ...
        def __set__(self, config: object, value: _Written) -> None: ...

    Duration = _Option[str | timedelta, timedelta]
    OptionalDuration = _Option[str | timedelta | None, timedelta | None]
    OneOf = _Option[str, _Choice]
else:
    Duration = Annotated[timedelta, BeforeValidator(_duration)]
    OptionalDuration = Annotated[timedelta | None, BeforeValidator(_optional_duration)]

    class OneOf:
        def __class_getitem__(cls, kind: type[_Choice]) -> Any:
            return Annotated[kind, BeforeValidator(partial(_one_of, kind))]
