"""Give meters the figures of a pipeline after each step that changes them. `protocol.observing.gauges` lists them."""

import logging
from collections.abc import Sequence

from tidegate.ports import CheckpointStore, Meter
from tidegate.protocol.observing.gauges import gauges

log = logging.getLogger("tidegate")


class Metrics:
    """The metrics of one pipeline. Without meters nothing is read."""

    def __init__(self, pipeline_id: str, store: CheckpointStore, meters: Sequence[Meter]) -> None:
        self._pipeline_id = pipeline_id
        self._store = store
        self._meters = meters

    def record(self) -> None:
        """Record the current figures. Raises nothing, because no checkpoint should fail for its figures."""
        if not self._meters:
            return
        try:
            figures = self._store.figures(self._pipeline_id)
            for meter in self._meters:
                meter.record(self._pipeline_id, gauges(figures), figures.lag)
        except Exception as error:
            log.warning("Metrics of pipeline %s were not recorded (%s).", self._pipeline_id, type(error).__name__)

    def flush(self) -> None:
        """Send the recorded figures, because the process may end without further notice. Raises nothing."""
        for meter in self._meters:
            try:
                meter.flush()
            except Exception as error:
                log.warning("Metrics of pipeline %s were not sent (%s).", self._pipeline_id, type(error).__name__)
