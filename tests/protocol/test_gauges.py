"""The metrics of a pipeline have Flink's names and meanings (protocol.md section 19)."""

from dataclasses import replace

from records import at, record

from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.observing.gauges import UNITS, gauges
from tidegate.protocol.observing.lag import SourceLag
from tidegate.protocol.observing.statistics import LatestFigures, LatestRestore, Measurement


def test_a_pipeline_without_checkpoints_has_no_figures():
    found = gauges(LatestFigures({}, 0, None, None, None))
    assert found.keys() == UNITS.keys()
    assert {name for name, value in found.items() if value == 0} == {
        name for name in found if name.startswith(("numberOf", "totalNumberOf"))
    }
    figures = ("last", "pending")
    assert {value for name, value in found.items() if name.startswith(figures)} == {-1}


def test_what_was_subsumed_counts_as_completed_and_the_rest_is_of_the_latest():
    latest = record(7).moved(status=Status.COMPLETED, completed_at=at(5), metadata_path="p/chk-7/_metadata")
    lag = [SourceLag("a", 2, "files", 30, at(1)), SourceLag("b", 1, "files", 40, at(1))]
    by_status = {Status.IN_PROGRESS: 1, Status.COMPLETED: 2, Status.DISCARDED: 3, Status.FAILED: 4}
    restored, measured = LatestRestore(latest, at(2)), Measurement(7, 10, 20, 30, 40, 50)
    found = gauges(LatestFigures(by_status, 1, restored, latest, measured, lag, 9))
    assert found == {
        "totalNumberOfCheckpoints": 10,
        "numberOfInProgressCheckpoints": 1,
        "numberOfCompletedCheckpoints": 5,
        "numberOfFailedCheckpoints": 4,
        "lastCheckpointRestoreTimestamp": int(at(2).timestamp() * 1000),
        "lastCheckpointSize": 20,
        "lastCheckpointFullSize": 30,
        "lastCheckpointDuration": 10,
        "lastCheckpointProcessedData": 40,
        "lastCheckpointPersistedData": 50,
        "lastCompletedCheckpointId": 7,
        "lastCheckpointCompletedTimestamp": int(at(5).timestamp() * 1000),
        "pendingBytes": 70,
        "pendingRecords": -1,
        "numberOfExpiredRows": 9,
    }
    rows = [replace(each, unit="rows") for each in lag]
    assert gauges(LatestFigures(by_status, 1, restored, latest, measured, rows, 9))["pendingRecords"] == 3
