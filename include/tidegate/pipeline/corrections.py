"""Windows that rows still change after they have left: how long, and what their further rows are. Without Spark."""

from dataclasses import dataclass
from datetime import timedelta

from tidegate.pipeline.aggregates import VERSION, Aggregate
from tidegate.pipeline.session_windows import SessionWindow
from tidegate.pipeline.windows import Window
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.text.durations import duration, written

#: What an operator emits of a window that has left before: rows that take each other's place, or numbered ones.
UPDATES, VERSIONS = "updates", "versions"
#: In numbered rows, how often the window has been emitted, this time included.
WINDOW_VERSION = "window_version"
_LONGEST = timedelta(days=100 * 365)


@dataclass(frozen=True, slots=True)
class Corrections:
    """A window stays in state for `lateness` microseconds of event time after its end."""

    lateness: int
    emit: str = UPDATES

    @property
    def numbered(self) -> bool:
        return self.emit == VERSIONS

    def describe(self) -> dict[str, str]:
        return {"allowed_lateness": written(timedelta(microseconds=self.lateness)), "emit": self.emit}


def corrections_of(
    name: str, window: Window | None, lateness: str | timedelta | None, emit: str | None
) -> Corrections | None:
    """What `allowed_lateness=` and `emit=` of an operator mean. Raises `PipelineDefinitionError`."""
    where = f"operator {name!r}"
    if lateness is None:
        if emit is not None:
            raise PipelineDefinitionError(
                f"The {where} has emit={emit!r} and no allowed_lateness, so each of its windows is emitted once. Say "
                "how long rows may come after a window's end, such as allowed_lateness='2 d', or leave emit out."
            )
        return None
    if window is None:
        raise PipelineDefinitionError(
            f"The {where} has allowed_lateness={lateness!r} and no window. Rows of plain aggregates are never late."
        )
    if isinstance(lateness, Aggregate) or isinstance(emit, Aggregate):
        raise PipelineDefinitionError(
            f"The {where} declares an aggregate called allowed_lateness or emit, which are the names of arguments. "
            "Call the aggregate otherwise."
        )
    length = duration(lateness)
    if not timedelta(0) < length <= _LONGEST:
        raise PipelineDefinitionError(
            f"The allowed_lateness of {where} is {lateness!r}. It is longer than nothing, and 100 years at most."
        )
    found = UPDATES if emit is None else emit
    if found not in (UPDATES, VERSIONS):
        raise PipelineDefinitionError(
            f"The emit of {where} is {emit!r}. Write 'updates', whose rows take each other's place, or 'versions', "
            "whose rows are numbered."
        )
    if found == VERSIONS and isinstance(window, SessionWindow):
        raise PipelineDefinitionError(
            f"The {where} has sessions and emit='versions'. Sessions that have left may become one, and a row that was "
            "appended cannot be taken back. Leave emit out and let a sink with mode='upsert' follow, or leave "
            "allowed_lateness out."
        )
    return Corrections(length // timedelta(microseconds=1), found)


def numbered(
    name: str, corrections: Corrections | None, aggregates: tuple[tuple[str, Aggregate], ...]
) -> tuple[tuple[str, Aggregate], ...]:
    """The aggregates of an operator, with the number of a window's rows if they have one. Raises
    `PipelineDefinitionError`."""
    if corrections is None or not corrections.numbered:
        return aggregates
    if WINDOW_VERSION in dict(aggregates):
        raise PipelineDefinitionError(
            f"The operator {name!r} declares an aggregate called {WINDOW_VERSION}, which is the column that numbers "
            "the rows of a window. Call the aggregate otherwise."
        )
    return (*aggregates, (WINDOW_VERSION, Aggregate(VERSION)))
