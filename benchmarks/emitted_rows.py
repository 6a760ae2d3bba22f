"""An epoch of an operator that emits beside that of one that does not: the same function over state, and the same rows
in the same kind of sink, once as emitted rows and once as changed rows of state.

From the call of the region until every subtask has acknowledged; the two take turns.
"""

from pathlib import Path
from typing import Any

from conditions import PARALLELISM
from taking_turns import source_of, take_turns

from tidegate import ParquetSink, Pipeline, Update

STATE = "key bigint, n bigint"


def counted(batch: Any, state: Any) -> Any:
    together = state.unionByName(batch.selectExpr("key", "1L as n"))
    return together.groupBy("key").agg({"n": "sum"}).toDF("key", "n")


def counted_and_emitted(batch: Any, state: Any) -> Update:
    changed = counted(batch, state)
    return Update(state=changed, rows=changed)


def pipeline_of(root: Path, emits: bool) -> Pipeline:
    name = "emitting" if emits else "changing"
    pipeline = Pipeline(name, PARALLELISM)
    rows = pipeline.source("rows", source_of(root))
    declare = pipeline.keyed("counts", inputs=[rows], key=["key"], state=STATE, output=STATE if emits else None)
    declare(counted_and_emitted if emits else counted).sink("counts", ParquetSink(str(root / name)))
    return pipeline


if __name__ == "__main__":
    take_turns(pipeline_of)
