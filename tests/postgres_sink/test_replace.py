"""A table that is replaced whole: what it keeps, what it cannot keep, who waits for whom, and the way back."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commits import Attempt, commit
from marts import values

from tidegate import PostgresSink
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.ports import Branch, StageContext
from tidegate.protocol.facts.errors import CheckpointNotRetainedError, RowsRefusedError, SinkError, SinkUnavailableError
from tidegate.protocol.recovery.ownership import Owner

BOTH = pytest.mark.parametrize("connection", [None, "marts"])
OID = "SELECT 'totals'::regclass::oid"
STORED = ["fillfactor=70", "autovacuum_enabled=off"]


@pytest.fixture
def base(request, here):
    return request.getfixturevalue("there") if request.getfixturevalue("connection") else here


@BOTH
def test_a_plan_says_which_rows_a_restore_would_replace(mart, base, connection):
    shop = mart(totals=PostgresSink("totals", mode="replace", connection=connection))
    shop.take(totals=values(1, 2))
    shop.take(totals=values(4, 5, 6))
    plan = shop.coordinator.plan_restore(ToCheckpoint(1)).lines()
    assert [line for line in plan if line.startswith("Sink totals withdraws checkpoints 2: 3 rows (")]
    shop.restore(1)
    assert base.loaded_tables() == []


def test_a_checkpoint_in_which_nothing_changed_touches_nothing(mart, here):
    shop = mart(totals=PostgresSink("totals", mode="replace"))
    sink = shop.sinks["totals"]
    id_ = shop.validated(totals=values(1))
    staged = [handle for known in shop.store.subtasks("mart", id_).values() for handle in known.snapshot.handles]
    shop.coordinator.finalize(id_)
    was = here.rows(OID)
    assert sink.prepare(2, staged).filled is None
    assert here.rows(OID) == was
    participant = sink.prepare(2, staged)
    here.do("TRUNCATE totals")
    with (
        pytest.raises(SinkError, match="were changed while its successor was filled"),
        shop.store.transaction("mart", None, [participant]),
    ):
        pass
    assert sink.prepare(2, staged).filled is not None
    here.do("DROP TABLE totals")
    assert sink.prepare(2, staged).filled is not None


def test_at_a_checkpoint_before_the_sink_the_table_is_empty_or_not_there(mart, here):
    sink = mart(totals=PostgresSink("totals", mode="replace")).sinks["totals"]
    sink.mark(Owner("mart", "totals", "x"))
    sink.rewind(1, Branch(((1, 1),)), [], Attempt())
    assert here.rows("SELECT to_regclass('totals')") == [None]
    commit(sink, 2, sink.writer().stage(values(1), StageContext(2, 0, 1, "u")))
    assert here.rows("SELECT v FROM totals") == [1]
    sink.rewind(1, Branch(((1, 1),)), [], Attempt())
    assert here.rows("SELECT v FROM totals") == []


def test_it_is_read_as_of_a_checkpoint_by_what_that_has_staged(mart, here):
    sink = mart(totals=PostgresSink("totals", mode="replace", columns=["v"])).sinks["totals"]
    staged = sink.writer().stage(pa.table({"v": [1], "w": [2]}), StageContext(1, 0, 1, "u"))
    table = sink.read_at(1, Branch(((1, 1),)), staged)
    assert (table.columns.names, [pq.read_table(path).num_rows for path in table.paths]) == (["v"], [1])
    with pytest.raises(CheckpointNotRetainedError, match="Read a checkpoint that is retained"):
        sink.read_at(1, Branch(((1, 1),)), None)


def test_what_was_granted_said_and_indexed_stays(mart, here):
    shop = mart(totals=PostgresSink("totals", mode="replace"))
    shop.take(totals=values(1))
    here.do(
        "DROP ROLE IF EXISTS dashboard",
        "CREATE ROLE dashboard",
        "GRANT SELECT ON totals TO dashboard WITH GRANT OPTION",
        "GRANT UPDATE (v) ON totals TO PUBLIC",
        "CREATE UNIQUE INDEX ON totals (v)",
        "ALTER TABLE totals ADD at int DEFAULT 7, ADD CHECK (v < 9)",
        "COMMENT ON TABLE totals IS '100% of :what it''s'",
        "ALTER TABLE totals SET (fillfactor = 70, autovacuum_enabled = off)",
    )
    told = (
        "SELECT has_table_privilege('dashboard', 'totals', 'SELECT WITH GRANT OPTION'), "
        "has_column_privilege('dashboard', 'totals', 'v', 'UPDATE'), obj_description('totals'::regclass), "
        "(SELECT reloptions FROM pg_class WHERE oid = 'totals'::regclass), "
        "(SELECT count(*) FROM pg_index WHERE indrelid = 'totals'::regclass AND indisunique), "
        "has_table_privilege('dashboard', 'totals', 'INSERT')"
    )
    was = here.rows(OID)
    for number in (2, 3):
        shop.take(totals=values(number))
        assert here.rows(told) == [(True, True, "100% of :what it's", STORED, 1, False)]
        assert here.rows("SELECT v, at FROM totals") == [(number, 7)]
    assert here.rows(OID) != was
    with pytest.raises(RowsRefusedError, match="because of constraint totals_v_check") as raised:
        shop.take(totals=values(10))
    assert "Nothing of the checkpoint is visible" in str(raised.value)
    assert here.rows("SELECT v FROM totals") == [3]
    here.do("DROP TABLE totals", "DROP OWNED BY dashboard", "DROP ROLE dashboard")


STAYS = {
    "view": (["CREATE VIEW seen AS SELECT v FROM totals"], "view seen"),
    "materialized view": (["CREATE MATERIALIZED VIEW seen AS SELECT v FROM totals"], "view seen"),
    "foreign key to it": (
        ["ALTER TABLE totals ADD UNIQUE (v)", "CREATE TABLE lines (v bigint CONSTRAINT line REFERENCES totals (v))"],
        "foreign key line of lines",
    ),
    "foreign key of it": (
        [
            "CREATE TABLE known (v bigint UNIQUE)",
            "ALTER TABLE totals ADD CONSTRAINT line FOREIGN KEY (v) REFERENCES known (v)",
        ],
        "foreign key line of totals",
    ),
    "trigger": (
        ["CREATE TRIGGER same BEFORE UPDATE ON totals EXECUTE FUNCTION suppress_redundant_updates_trigger()"],
        "trigger same",
    ),
    "policy": (["CREATE POLICY mine ON totals USING (true)"], "policy mine"),
    "owner": (["ALTER TABLE totals OWNER TO tidegate", "GRANT ALL ON totals TO tidegate_runner"], "only its owner may"),
}


@pytest.mark.parametrize("case", STAYS)
def test_what_would_stay_with_the_old_table_is_refused_before_anything_is_loaded(mart, here, case):
    statements, what = STAYS[case]
    here.do("CREATE TABLE totals (v bigint)", "ALTER TABLE totals OWNER TO tidegate_runner", *statements)
    sink = PostgresSink("totals", mode="replace")
    (said,) = sink.unstorable(pa.schema([("v", pa.int64())]))
    assert said.startswith(what)
    with pytest.raises(RowsRefusedError, match=what):
        mart(totals=sink).take(totals=values(1))
    assert here.loaded_tables() == []


def test_a_reader_is_waited_for_and_a_long_one_is_an_error_that_says_so(impatient, here):
    shop = impatient(totals=PostgresSink("totals", mode="replace"))
    shop.take(totals=values(1))
    id_ = shop.validated(totals=values(2))
    with here.session() as reader:
        reader.execute("SELECT v FROM totals")
        with pytest.raises(SinkUnavailableError, match="Another session has held a lock on the table") as raised:
            shop.coordinator.finalize(id_)
        assert raised.value.retries is None
        reader.execute("SELECT v FROM totals")
        assert reader.fetchall() == [(1,)]
    shop.coordinator.finalize(id_)
    assert here.rows("SELECT v FROM totals") == [2]
