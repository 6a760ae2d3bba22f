"""Keyed state as sorted Parquet runs, and the checkpoint storage they lie on: numpy and pyarrow, no Spark.

May import `pipeline` (aggregates), `protocol` and settings. Read `layout` and `runs` first, then `subtask` (an upsert),
then `reading` (what people read).

`tidegate.state.read(…)` and `tidegate.state.options(…)` are public. Nothing here can find files by name, so they are
put together in `assembly`, from where they are imported when first used, like the names of the package itself.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.assembly import read_state as read
    from tidegate.assembly import state_options as options

__all__ = ["options", "read"]

_PUBLIC = {"read": "read_state", "options": "state_options"}

if not TYPE_CHECKING:  # a type checker would take every other name for one of these

    def __getattr__(name: str) -> object:
        if name not in _PUBLIC:
            raise AttributeError(f"module 'tidegate.state' has no attribute {name!r}")
        return getattr(import_module("tidegate.assembly"), _PUBLIC[name])
