"""What is in doubt, on a real database and real files."""

from contextlib import closing

import pytest
from several_tables import SeveralTables

from tidegate.assembly import open_readings
from tidegate.protocol.facts.errors import PipelineNotFoundError, SinkError
from tidegate.protocol.observing.doubts import DoubtReason


@pytest.fixture
def shop(store, running_url, tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", running_url)
    return SeveralTables(store, tmp_path)


@pytest.fixture
def readings(shop):
    with closing(open_readings()) as readings:
        yield readings


def test_a_checkpoint_whose_notify_was_not_begun(shop, readings):
    shop.take()
    assert readings.doubts() == ()
    shop.finalize()
    (doubt,) = readings.doubts("shop")
    assert (doubt.pipeline_id, doubt.checkpoint_id, doubt.restore) == ("shop", 2, None)
    assert (doubt.reason, doubt.sinks, doubt.problem) == (
        DoubtReason.NOT_BEGUN, ("events", "merged", "now"), None,
    )  # fmt: skip
    assert doubt.duration >= 0
    assert "may still show checkpoint 1, or checkpoint 2 already" in doubt.readers


def test_why_the_last_attempt_has_failed_until_one_succeeds(shop, readings):
    shop.take()
    shop.block("now")
    id_ = shop.finalize()
    with pytest.raises(SinkError):
        shop.coordinator.notify(id_)
    (doubt,) = readings.doubts()
    assert doubt.reason is DoubtReason.FAILED
    assert doubt.why.startswith("Committing the sinks of checkpoint 2 failed: Checkpoint 2 could not be committed to ")
    assert doubt.advice.startswith("Remove the cause. Then `tidegate run shop`")
    shop.unblock("now")
    shop.take()
    assert readings.doubts() == ()


def test_a_restore_that_a_table_has_not_followed(shop, readings):
    shop.take()
    shop.take()
    shop.block("merged")
    with pytest.raises(SinkError):
        shop.restore(1)
    (doubt,) = readings.doubts("shop")
    assert (doubt.checkpoint_id, doubt.restore, doubt.reason) == (1, 1, DoubtReason.FAILED)
    assert "Rewinding the sinks to checkpoint 1 failed" in doubt.why
    shop.unblock("merged")
    shop.take()
    assert readings.doubts() == ()


def test_nothing_is_said_of_a_pipeline_that_there_is_not(readings):
    with pytest.raises(PipelineNotFoundError):
        readings.doubts("shpo")
