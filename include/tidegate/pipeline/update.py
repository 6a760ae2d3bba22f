"""The result of the function of an operator that emits rows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """The result of the function of an operator with an `output`.

    Args:
        state: The rows to upsert, in the columns of the state.
        rows: The rows to emit, in the columns of the output.

    Example:
        ```python
        from pyspark.sql import functions as F
        from tidegate import FileSource, Pipeline, Update

        pipeline = Pipeline("shop")
        orders = pipeline.source("orders", FileSource("landing", schema="customer STRING, cents BIGINT"))


        @pipeline.keyed("first", inputs=[orders], key=["customer"], state="customer STRING", output="customer STRING")
        def first(orders, state):
            new = orders.select("customer").distinct().join(state, "customer", "left_anti")
            return Update(state=new, rows=new)
        ```
    """

    state: "DataFrame"
    rows: "DataFrame"
