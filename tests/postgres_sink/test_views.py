"""Which checkpoint each sink shows, and which it has shown, for those who read by SQL."""

import pytest

from tidegate import ParquetSink, PostgresSink
from tidegate.protocol.facts.errors import SinkError

CURRENT = "SELECT sink, checkpoint_id, in_doubt, shown_at >= completed_at FROM tidegate.tidegate_current ORDER BY sink"
HISTORY = """
SELECT checkpoint_id, shown_at IS NOT NULL, in_the_commit, left_behind_by FROM tidegate.tidegate_history
WHERE sink = '{}' ORDER BY checkpoint_id
"""


def test_a_reader_sees_which_checkpoint_each_sink_shows(mart, here):
    shop = mart(files=ParquetSink("tables/files"), orders=PostgresSink("orders"))
    assert here.rows(CURRENT) == []
    shop.take()
    id_ = shop.finalize()
    assert here.rows(CURRENT) == [("files", 1, True, True), ("orders", 2, False, True)]
    assert here.rows(HISTORY.format("files")) == [(1, True, False, None), (2, False, False, None)]
    assert here.rows(HISTORY.format("orders")) == [(1, True, True, None), (2, True, True, None)]
    shop.coordinator.notify(id_)
    assert here.rows(CURRENT) == [("files", 2, False, True), ("orders", 2, False, True)]
    shop.restore(1)
    assert here.rows(CURRENT) == [("files", 1, False, True), ("orders", 1, False, True)]
    assert here.rows(HISTORY.format("orders")) == [(1, True, True, None), (2, True, True, 1)]


def test_a_table_that_has_still_to_follow_a_restore_is_in_doubt(mart, here, home):
    shop = mart(files=ParquetSink("tables/files"), orders=PostgresSink("orders"))
    shop.take()
    shop.take()
    where = home / "tables/files/_committing"
    where.rename(home / "aside")
    where.touch()
    with pytest.raises(SinkError):
        shop.restore(1)
    assert here.rows(CURRENT) == [("files", 1, True, True), ("orders", 1, False, True)]


def test_whoever_may_read_the_views_need_not_read_what_is_below(mart, here):
    mart(orders=PostgresSink("orders")).take()
    with here.session() as cursor:
        cursor.execute("CREATE ROLE dashboard; GRANT USAGE ON SCHEMA tidegate TO dashboard")
        cursor.execute("GRANT SELECT ON tidegate.tidegate_current, tidegate.tidegate_history TO dashboard")
        cursor.execute("SET ROLE dashboard")
        cursor.execute(CURRENT)
        assert cursor.fetchall() == [("orders", 1, False, True)]
        cursor.execute("SELECT has_table_privilege('tidegate.checkpoints', 'SELECT')")
        assert cursor.fetchone() == (False,)
