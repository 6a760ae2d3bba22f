"""A pipeline's metrics, under the names that Flink uses (protocol.md section 19)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from tidegate.protocol.observing.lag import SourceLag
from tidegate.protocol.observing.statistics import LatestFigures, count_checkpoints

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


#: The unit of a source that can count its rows without reading them.
ROWS = "rows"
#: The lag of a pipeline in one part of a source, such as a partition of a topic, under the name that Kafka's consumers
#: use. It has attributes of its own: `source` and `partition`.
PARTS = "recordsLag"
#: All other gauges, with their units in OpenTelemetry's notation.
UNITS = {
    "totalNumberOfCheckpoints": "{checkpoint}",
    "numberOfInProgressCheckpoints": "{checkpoint}",
    "numberOfCompletedCheckpoints": "{checkpoint}",
    "numberOfFailedCheckpoints": "{checkpoint}",
    "lastCheckpointRestoreTimestamp": "ms",
    "lastCheckpointSize": "By",
    "lastCheckpointFullSize": "By",
    "lastCheckpointDuration": "ms",
    "lastCheckpointProcessedData": "By",
    "lastCheckpointPersistedData": "By",
    "lastCompletedCheckpointId": "",
    "lastCheckpointCompletedTimestamp": "ms",
    "pendingBytes": "By",
    "pendingRecords": "{record}",
    "numberOfExpiredRows": "{row}",
}


def gauges(figures: LatestFigures) -> dict[str, int]:
    """Return the gauges by name. Sizes are bytes, durations milliseconds, times milliseconds since 1970; -1 means that
    there is no figure. Performs no I/O."""
    counts = count_checkpoints(figures.by_status, figures.restores)
    latest, measured, restore = figures.latest_completed, figures.latest, figures.latest_restore
    return {
        "totalNumberOfCheckpoints": counts.total,
        "numberOfInProgressCheckpoints": counts.in_progress,
        "numberOfCompletedCheckpoints": counts.completed,
        "numberOfFailedCheckpoints": counts.failed,
        "lastCheckpointRestoreTimestamp": -1 if restore is None else _milliseconds(restore.at),
        "lastCheckpointSize": -1 if measured is None else measured.checkpointed_size,
        "lastCheckpointFullSize": -1 if measured is None else measured.state_size,
        "lastCheckpointDuration": -1 if measured is None else measured.end_to_end_duration,
        "lastCheckpointProcessedData": -1 if measured is None else measured.processed_data,
        "lastCheckpointPersistedData": -1 if measured is None else measured.persisted_data,
        "lastCompletedCheckpointId": -1 if latest is None else latest.checkpoint_id,
        "lastCheckpointCompletedTimestamp": -1 if latest is None else _milliseconds(latest.completed_at),
        "pendingBytes": _pending_bytes(figures.lag),
        "pendingRecords": _pending_records(figures.lag),
        "numberOfExpiredRows": figures.expired_rows,
    }


def _pending_bytes(lag: Sequence[SourceLag]) -> int:
    """Sum up the pending bytes of all sources. Flink has this figure for each source alone."""
    return -1 if not lag or any(each.bytes < 0 for each in lag) else sum(each.bytes for each in lag)


def _pending_records(lag: Sequence[SourceLag]) -> int:
    """Sum up the pending rows of all sources; -1 if a source counts files."""
    return -1 if not lag or any(each.unit != ROWS for each in lag) else sum(each.pending for each in lag)


def _milliseconds(at: datetime | None) -> int:
    return -1 if at is None else (at - _EPOCH) // timedelta(milliseconds=1)
