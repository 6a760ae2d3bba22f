"""The former name and columns of a vertex whose definition has changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Previous:
    """The former name and columns of an operator.

    Needed until the first rows have arrived after the change of definition, and harmless afterwards.

    Args:
        name: The former name, if the operator was renamed.
        columns: The former name of each renamed column or aggregate, by its present name. None marks a new column that
            resembles a removed one.

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
