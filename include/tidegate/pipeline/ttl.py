"""How long rows of state live, as a definition says it."""

from collections.abc import Collection
from datetime import timedelta

from tidegate.pipeline.aggregates import Aggregate
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.schema.expiry import UPDATED, TimeToLive
from tidegate.protocol.text.durations import duration

#: Longer ones end after the last time that a column can hold.
_LONGEST = timedelta(days=200 * 365)
_SHORTEST = timedelta(milliseconds=1)

#: Aggregates whose value is that of a column, and so may be a time.
_TIMES = ("min", "max", "min_by", "max_by")


def ttl_of(operator: str, ttl: str | timedelta | None, by: str | None) -> TimeToLive | None:
    """What `ttl=` and `ttl_by=` of an operator mean. Raises `PipelineDefinitionError`."""
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
            f"The {where} declares an aggregate called ttl, which is the name of the argument that says how long rows "
            "live. Call the aggregate otherwise."
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
    """Raises `PipelineDefinitionError` for an aggregate that is no time. Whether a column is one, its type says."""
    for name, aggregate in aggregates:
        if name == ttl.column and aggregate.function not in _TIMES:
            raise PipelineDefinitionError(
                f"The rows of {where} are to expire by {name!r}, which is {aggregate.function}(…) and no time. Name an "
                "aggregate such as max_('at') over a column of times, or a column of the key."
            )
