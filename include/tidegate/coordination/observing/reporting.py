"""Report on a pipeline: events to notifiers, figures to meters. No error here harms a checkpoint."""

from collections.abc import Sequence

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.observing.events import EventDelivery
from tidegate.coordination.observing.metrics import Metrics
from tidegate.coordination.observing.staleness import Health, Staleness
from tidegate.ports import Meter, Notifier
from tidegate.protocol.observing.events import EventKind


class Reporting:
    """The reports of one pipeline. Every method may be repeated."""

    def __init__(self, context: DefinedContext, notifiers: Sequence[Notifier], meters: Sequence[Meter]) -> None:
        self._context = context
        self.pipeline_id = context.pipeline_id
        self._events = EventDelivery(context, notifiers)
        self._metrics = Metrics(context.pipeline_id, context.store, meters)
        self._staleness = Staleness(context, context.config.stale_after)
        #: Whether a notifier wants completions.
        self.announces = self._events.wants(EventKind.CHECKPOINT_COMPLETED)

    def deliver(self) -> None:
        """Deliver the events that are due, of any process. Raises nothing."""
        self._events.deliver()

    def report(self) -> None:
        """Report after a step that changed something: the current figures, then the events that are due. Raises
        nothing."""
        self._metrics.record()
        self._events.deliver()

    def watch(self) -> Health:
        """See `Staleness.check`. Afterwards the events that are due are delivered."""
        health = self._staleness.check()
        self._events.deliver()
        return health

    def flush(self) -> None:
        """Send the figures now, because the process may be ended before a later chance. Raises nothing."""
        self._metrics.flush()
