"""Keyed state as sorted Parquet runs, and the checkpoint storage they lie on: numpy and pyarrow, no Spark.

May import `pipeline` (aggregates), `protocol` and settings. Read `layout` and `runs` first, then `subtask` (an upsert),
then `reading` (what people read).

`tidegate.state.read(…)` and `tidegate.state.options(…)` are public. Nothing here can find files by name, so they are
put together in `assembly`, from where they are imported when first used, like the names of the package itself.
"""

from importlib import import_module
from typing import Any

_PUBLIC = {"read": "read_state", "options": "state_options"}


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tidegate.state' has no attribute {name!r}")
    return getattr(import_module("tidegate.assembly"), _PUBLIC[name])
