"""What a vertex was before its definition changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Previous:
    """What an operator was called before, if it was renamed, and what its columns and aggregates were, by their names
    now. None for a column says that it is a new one, although it looks like one that is gone.

    Needed until the first rows have arrived for the operator after the change, and harmless afterwards.
    """

    name: str | None = None
    columns: Mapping[str, str | None] = field(default_factory=dict)

    @classmethod
    def of(cls, previous: "Previous | str | None") -> "Previous":
        return previous if isinstance(previous, Previous) else cls(previous)
