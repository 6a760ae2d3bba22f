"""Savepoints that are written by hand: from another one, with some of its state changed, or from nothing.

    from tidegate import savepoint

    edit = savepoint.edit(pipeline, savepoint="before-friday")
    edit.upsert("customers", rows)
    edit.write("archive/repaired")

`edits` has the class. It needs Spark, and is imported when first used.
"""

from importlib import import_module
from typing import Any

_PUBLIC = ("edit", "create", "SavepointEdit")


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tidegate.savepoint' has no attribute {name!r}")
    return getattr(import_module("tidegate.savepoint.edits"), name)
