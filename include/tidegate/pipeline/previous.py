"""What a vertex was before its definition changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Previous:
    """What an operator was before its definition changed. Needed until the first rows have arrived for it after the
    change, and harmless afterwards.

    Args:
        name: The name that it had, if it was renamed.
        columns: By the name of a column or aggregate now, the name that it had. None says that the column is a new one,
            although it looks like one that is gone.

    Example:
        ```python
        from tidegate import FileSource, Pipeline, Previous, sum_

        pipeline = Pipeline("shop")
        orders = pipeline.source("orders", FileSource("landing", schema="customer STRING, cents BIGINT"))
        renamed = Previous("customers", columns={"cents": "total"})
        orders.key_by("customer").aggregate("totals", cents=sum_("cents"), previous=renamed)
        ```
    """

    name: str | None = None
    columns: Mapping[str, str | None] = field(default_factory=dict)

    @classmethod
    def of(cls, previous: "Previous | str | None") -> "Previous":
        return previous if isinstance(previous, Previous) else cls(previous)
