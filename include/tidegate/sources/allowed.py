"""What the columns of a file may be, beside those of the schema under their names. Executors import this module."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tidegate.sources.files import FileSource

#: By another name in lower case, the column of the schema.
Aliases = Mapping[str, str]


class Allowed(NamedTuple):
    """Whether files may lack columns, and have others. `adds_only`: not both at once, which a column with another name
    looks like."""

    missing: bool = False
    extra: bool = False
    adds_only: bool = False


#: The columns of the schema, all of them and no others.
NOTHING = Allowed()


def allowed_of(source: "FileSource") -> Allowed:
    if source.evolve is not None:
        return Allowed(True, True, True)
    return Allowed(source.missing_columns == "null", source.extra_columns == "ignore")


def aliases_of(source: "FileSource") -> Aliases:
    return {name.lower(): column for column, names in source.aliases.items() for name in names}
