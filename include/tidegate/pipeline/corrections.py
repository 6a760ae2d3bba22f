"""Windows that rows still change after they have been emitted: how long, and how their later rows are emitted. Without
Spark."""

from dataclasses import dataclass
from datetime import timedelta

from tidegate.pipeline.aggregates import VERSION, Aggregate
from tidegate.pipeline.session_windows import SessionWindow
from tidegate.pipeline.windows import Window
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.text.durations import duration, written

#: The two ways to emit a window again: rows that replace one another, or numbered rows.
UPDATES, VERSIONS = "updates", "versions"
#: The column of numbered rows that counts the emissions of the window, this one included.
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
    """Return the corrections that `allowed_lateness=` and `emit=` of an operator declare. Raise
    `PipelineDefinitionError`."""
    where = f"operator {name!r}"
    if lateness is None:
        if emit is not None:
            raise PipelineDefinitionError(
                f"The {where} has emit={emit!r} and no allowed_lateness, so each of its windows is emitted once. Set "
                "how long rows may arrive after a window's end, such as allowed_lateness='2 d', or leave emit out."
            )
        return None
    if window is None:
        raise PipelineDefinitionError(
            f"The {where} has allowed_lateness={lateness!r} and no window. Rows of plain aggregates are never late."
        )
    if isinstance(lateness, Aggregate) or isinstance(emit, Aggregate):
        raise PipelineDefinitionError(
            f"The {where} declares an aggregate called allowed_lateness or emit, which are the names of arguments. "
            "Give the aggregate another name."
        )
    length = duration(lateness)
    if not timedelta(0) < length <= _LONGEST:
        raise PipelineDefinitionError(
            f"The allowed_lateness of {where} is {lateness!r}. It must be longer than 0 s, and 100 years at most."
        )
    emitted = UPDATES if emit is None else emit
    if emitted not in (UPDATES, VERSIONS):
        raise PipelineDefinitionError(
            f"The emit of {where} is {emit!r}. Write 'updates', whose rows replace one another, or 'versions', whose "
            "rows are numbered."
        )
    if emitted == VERSIONS and isinstance(window, SessionWindow):
        raise PipelineDefinitionError(
            f"The {where} has sessions and emit='versions'. Two emitted sessions may merge into one, and an appended "
            "row cannot be taken back. Leave emit out and let a sink with mode='upsert' follow, or leave "
            "allowed_lateness out."
        )
    return Corrections(length // timedelta(microseconds=1), emitted)


def numbered(
    name: str, corrections: Corrections | None, aggregates: tuple[tuple[str, Aggregate], ...]
) -> tuple[tuple[str, Aggregate], ...]:
    """Return the aggregates of an operator, including the number of a window's rows if they are numbered. Raise
    `PipelineDefinitionError` if its name is taken."""
    if corrections is None or not corrections.numbered:
        return aggregates
    if WINDOW_VERSION in dict(aggregates):
        raise PipelineDefinitionError(
            f"The operator {name!r} declares an aggregate called {WINDOW_VERSION}, which is the column that numbers "
            "the rows of a window. Give the aggregate another name."
        )
    return (*aggregates, (WINDOW_VERSION, Aggregate(VERSION)))
