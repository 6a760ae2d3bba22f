"""Deviations from the schema that a file's columns may have. Executors import this module."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tidegate.sources.files import FileSource

#: Columns of the schema by their other names, in lower case.
Aliases = Mapping[str, str]


class Allowed(NamedTuple):
    """Whether files may lack columns, and have others. With `adds_only`, not both at once, because that is also how a
    renamed column appears."""

    missing: bool = False
    extra: bool = False
    adds_only: bool = False


#: The file must have exactly the columns of the schema.
NOTHING = Allowed()


def allowed_of(source: "FileSource") -> Allowed:
    if source.evolve is not None:
        return Allowed(True, True, True)
    return Allowed(source.missing_columns == "null", source.extra_columns == "ignore")


def aliases_of(source: "FileSource") -> Aliases:
    return {name.lower(): column for column, names in source.aliases.items() for name in names}
