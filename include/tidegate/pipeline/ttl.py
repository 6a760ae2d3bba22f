"""The time to live of rows of state, as declared."""

from collections.abc import Collection
from datetime import timedelta

from tidegate.pipeline.aggregates import Aggregate
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.schema.expiry import UPDATED, TimeToLive
from tidegate.protocol.text.durations import duration

#: A longer one would end after the last time that a column can hold.
_LONGEST = timedelta(days=200 * 365)
_SHORTEST = timedelta(milliseconds=1)

#: Aggregates whose value comes from a column, and so may be a time.
_TIMES = ("min", "max", "min_by", "max_by")


def ttl_of(operator: str, ttl: str | timedelta | None, by: str | None) -> TimeToLive | None:
    """Return the time to live that `ttl=` and `ttl_by=` of an operator declare. Raise `PipelineDefinitionError`."""
    where = f"operator {operator!r}"
    if ttl is None:
        if by is not None:
            raise PipelineDefinitionError(
                f"The {where} has ttl_by={by!r} and no ttl. Say how long its rows live, such as ttl='30 d', or leave "
                "ttl_by out."
            )
        return None
    if isinstance(ttl, Aggregate):
        raise PipelineDefinitionError(
            f"The {where} declares an aggregate called ttl, which is the name of the argument for the time to live of "
            "rows. Give the aggregate another name."
        )
    if by is not None and not isinstance(by, str):
        raise PipelineDefinitionError(
            f"The ttl_by of {where} is {by!r}. It is the name of a column of its state, such as ttl_by='changed'."
        )
    try:
        length = duration(ttl)
    except PipelineDefinitionError as error:
        raise PipelineDefinitionError(f"The ttl of {where} cannot be read: {error}") from error
    if not _SHORTEST <= length <= _LONGEST:
        raise PipelineDefinitionError(
            f"The ttl of {where} is {ttl!r}. Rows of state live for a millisecond at least and 200 years at most. "
            "Leave it out for rows that live for ever."
        )
    return TimeToLive(by or UPDATED, length // timedelta(microseconds=1), by is None)


def check_ttl(where: str, ttl: TimeToLive, aggregates: Collection[tuple[str, Aggregate]]) -> None:
    """Raise `PipelineDefinitionError` if rows are to expire by an aggregate that is not a time. The types of columns
    are checked where they are known."""
    for name, aggregate in aggregates:
        if name == ttl.column and aggregate.function not in _TIMES:
            raise PipelineDefinitionError(
                f"The rows of {where} are to expire by {name!r}, which is {aggregate.function}(…) and no time. Name an "
                "aggregate such as max_('at') over a column of times, or a column of the key."
            )
