"""Who is told of what happens to pipelines, outside of Tidegate."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from tidegate.protocol.observing.events import Event, EventKind
from tidegate.protocol.observing.lag import SourceLag


class Notifier(Protocol):
    """Told of a pipeline's events at least once each, after what they say is committed.

    `name` says to whom an event was delivered: it stays the same as long as it means the same receiver.
    """

    @property
    def name(self) -> str: ...
    @property
    def kinds(self) -> frozenset[EventKind]: ...

    def notify(self, event: Event) -> bool:
        """Whether the receiver has taken it; False if it was reached and refused this event. Any error means that it
        was not reached. Must come back within seconds: a checkpoint waits for it."""
        ...


class Meter(Protocol):
    """Where a pipeline's metrics go."""

    def record(self, pipeline_id: str, metrics: Mapping[str, int], lag: Sequence[SourceLag]) -> None:
        """The current values, by their names in Flink, and how far the pipeline is behind each of its sources."""
        ...

    def flush(self) -> None:
        """Send what was recorded: the process may end without further notice."""
        ...
