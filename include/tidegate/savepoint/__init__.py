"""Edited savepoints, written from another one with changed state, or from nothing.

    from tidegate import savepoint

    edit = savepoint.edit(pipeline, savepoint="before-friday")
    edit.upsert("customers", rows)
    edit.write("archive/repaired")

`edits` has the class. It needs Spark, and is imported when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.savepoint.edits import SavepointEdit, Written, create, edit

__all__ = ["SavepointEdit", "Written", "create", "edit"]

if not TYPE_CHECKING:  # a type checker would take every other name for one of these

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'tidegate.savepoint' has no attribute {name!r}")
        return getattr(import_module("tidegate.savepoint.edits"), name)
