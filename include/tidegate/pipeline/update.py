"""What the function of an operator that emits returns."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """What the function of an operator with an `output` returns, both Spark DataFrames: `state` has the rows to upsert,
    and `rows` what the operator emits."""

    state: "DataFrame"
    rows: "DataFrame"
