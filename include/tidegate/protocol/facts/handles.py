"""State handles as JSON, and the meaning of their details.

The database has columns instead (`postgres.rows`).
"""

from collections.abc import Mapping
from typing import Any

from tidegate.protocol.facts.keygroups import KeyGroupRange
from tidegate.protocol.facts.records import HandleKind, StateHandle

_FOR_READERS = {"checksum": "sha256"}
_BY_READERS = {theirs: ours for ours, theirs in _FOR_READERS.items()}
_ENDS = ("first", "last")


def handle_to_json(handle: StateHandle) -> dict[str, Any]:
    """Return the JSON that executors send, and that a position with data in flight holds."""
    groups = handle.key_groups
    return {
        "path": handle.path,
        "kind": handle.kind.value,
        "rows": handle.rows,
        "bytes": handle.bytes,
        "checksum": handle.checksum,
        "created_by": handle.created_by,
        "key_groups": None if groups is None else {"first": groups.first, "last": groups.last},
        "details": dict(handle.details),
    }


def handle_from_json(handle: Mapping[str, Any]) -> StateHandle:
    """Return the handle that `handle_to_json` wrote."""
    groups = handle["key_groups"]
    parsed = {
        "kind": HandleKind(handle["kind"]),
        "key_groups": None if groups is None else KeyGroupRange(**groups),
    }
    return StateHandle(**{**handle, **parsed})


def handle_for_readers(handle: StateHandle) -> dict[str, Any]:
    """Return the JSON that `_metadata` and the command line show, with names that explain themselves to other programs
    and people."""
    groups = handle.key_groups
    shown = handle_to_json(handle) | {"key_groups": None if groups is None else [groups.first, groups.last]}
    return {_FOR_READERS.get(name, name): value for name, value in shown.items()}


def handle_from_readers(shown: Mapping[str, Any]) -> StateHandle:
    """Return the handle that `handle_for_readers` shows."""
    groups = shown["key_groups"]
    handle = {_BY_READERS.get(name, name): value for name, value in shown.items()}
    return handle_from_json(handle | {"key_groups": None if groups is None else dict(zip(_ENDS, groups, strict=True))})


def layout_version(run: StateHandle) -> int:
    """Count the changes of the columns before a run was written."""
    return int(run.details.get("layout_version", 0))
