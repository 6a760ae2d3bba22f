"""Tables in Postgres, in Iceberg and in files have derived columns of the state, whatever became of the pipeline."""

from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from iceberg_tables import Lake
from marts import Server
from upserting_marts import UpsertingMarts

from tidegate import IcebergSink, ParquetSink, PostgresSink
from tidegate.protocol.facts.errors import PipelineDefinitionError

pytestmark = pytest.mark.spark
ALL = {"mart", "whole", "lake", "files"}


class Deriving(UpsertingMarts):
    """The tables have even values alone, `factor` times as large, under another name of their key."""

    lake: Lake
    factor = 10

    def sinks(self) -> dict[str, Any]:
        return {
            "mart": PostgresSink("mart", "upsert", key="id"),
            "whole": PostgresSink("whole", "replace"),
            "lake": IcebergSink("db.now", mode="latest"),
            "files": ParquetSink("tables/now", mode="latest"),
        }

    def shown(self, state: Any) -> Any:
        factor = self.factor
        return state.transform(lambda rows: rows.where("v % 2 = 0").selectExpr("k AS id", f"v * {factor} AS times"))

    def check(self) -> None:
        expected = {k: v * self.factor for k, v in self.state.items() if v % 2 == 0}
        for name in ("mart", "whole"):
            assert dict(self.servers["mart"].rows(f"SELECT id, times FROM {name}")) == expected, name  # noqa: S608
        assert {row["id"]: row["times"] for row in self.lake.rows("db.now")} == expected
        rows = ds.dataset(Path(self._home / "tables" / "now" / "current").resolve()).to_table().to_pylist()
        assert {row["id"]: row["times"] for row in rows} == expected


@pytest.fixture
def marts(spark: Any, store: Any, home: Any, here: Server, there: Server, postgres_url: str) -> Deriving:
    made = Deriving(spark, store, home, here, there)
    made.lake = Lake(postgres_url)
    return made


def test_rows_come_go_and_are_put_back(marts: Deriving, home: Path) -> None:
    marts.take(a=2, b=4, c=3)
    marts.check()
    assert marts.planned() == set()
    assert marts.whole(marts.take(a=3, c=6, d=8)) == set()  # one does not pass any more, and one does now
    marts.check()
    assert marts.whole(marts.take(b=-4, d=-9)) == set()
    marts.check()
    marts.restore(1)
    marts.check()
    assert marts.whole(marts.take(e=6)) == set()
    marts.check()
    marts.restore()
    marts.check()
    marts.factor = 100
    marts.reopen(**marts.sinks())
    assert marts.planned() == ALL
    assert marts.whole(marts.take()) == {"mart"}  # nothing has come; the others always have all of a subtask's rows
    marts.check()
    assert marts.planned() == set()
    marts.factor = 10
    marts.restore(1)  # the tables have what they had then, and other code
    marts.check()
    marts.factor = 100
    marts.take()
    marts.check()
    marts.save(str(home / "saved"))
    marts.take(f=10)
    marts.import_(str(home / "saved"))
    marts.check()
    marts.take(f=12)
    marts.check()


def test_a_key_that_the_table_does_not_have_is_refused_before_anything_is_written(marts: Deriving) -> None:
    sinks = marts.sinks() | {"mart": PostgresSink("mart", "upsert", key="times")}
    marts.reopen(**sinks)
    with pytest.raises(PipelineDefinitionError, match="has the key id, but the sink has times: rows would overwrite"):
        marts.take(a=2)
