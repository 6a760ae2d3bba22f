"""Keyed state as sorted Parquet runs, and the checkpoint storage that holds them: numpy and pyarrow, no Spark.

May import `pipeline` (aggregates), `protocol` and settings. Read `layout` and `runs` first, then `subtask` (an upsert),
then `reading` (for people).

`tidegate.state.read(…)` and `tidegate.state.options(…)` are public. Nothing in this package finds files by name, so
both are defined in `assembly` and imported from there on first use, like the names of the package itself.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.assembly import read_state as read
    from tidegate.assembly import state_options as options

__all__ = ["options", "read"]

_PUBLIC = {"read": "read_state", "options": "state_options"}

if not TYPE_CHECKING:  # a type checker would resolve every other name here

    def __getattr__(name: str) -> object:
        if name not in _PUBLIC:
            raise AttributeError(f"module 'tidegate.state' has no attribute {name!r}")
        return getattr(import_module("tidegate.assembly"), _PUBLIC[name])
