"""What the function of an operator that emits returns."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """What the function of an operator with an `output` returns, both Spark DataFrames: `state` has the rows to upsert,
    and `rows` what the operator emits."""

    state: Any
    rows: Any
