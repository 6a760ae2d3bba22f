"""The receivers of notifications and metrics outside of Tidegate."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from tidegate.protocol.observing.events import Event, EventKind
from tidegate.protocol.observing.lag import SourceLag


class Notifier(Protocol):
    """A receiver of a pipeline's events. Each event is delivered at least once, after its cause is committed.

    `name` identifies the receiver in the records of deliveries, so it must not change as long as the receiver is the
    same.
    """

    @property
    def name(self) -> str: ...
    @property
    def kinds(self) -> frozenset[EventKind]: ...

    def notify(self, event: Event) -> bool:
        """Deliver an event. Return False if the receiver was reached and refused it. Any error means that the receiver
        was not reached. The call must return within seconds, because a checkpoint waits for it."""
        ...


class Meter(Protocol):
    """The receiver of a pipeline's metrics."""

    def record(self, pipeline_id: str, metrics: Mapping[str, int], lag: Sequence[SourceLag]) -> None:
        """Record the current values, by their names in Flink, and the pipeline's lag behind each of its sources."""
        ...

    def flush(self) -> None:
        """Send the recorded values, because the process may end without further notice."""
        ...
