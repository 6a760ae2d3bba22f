"""A state handle as JSON: the only place that knows how one is written down and read back, and what its details say.

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
    """As executors send it, and as a position has it that holds data in flight."""
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
    """The handle that `handle_to_json` wrote."""
    groups = handle["key_groups"]
    known = {
        "kind": HandleKind(handle["kind"]),
        "key_groups": None if groups is None else KeyGroupRange(**groups),
    }
    return StateHandle(**{**handle, **known})


def handle_for_readers(handle: StateHandle) -> dict[str, Any]:
    """As `_metadata` and the command line show it, to other programs and to people: the same by names that explain
    themselves."""
    groups = handle.key_groups
    shown = handle_to_json(handle) | {"key_groups": None if groups is None else [groups.first, groups.last]}
    return {_FOR_READERS.get(name, name): value for name, value in shown.items()}


def handle_from_readers(shown: Mapping[str, Any]) -> StateHandle:
    """The handle that `handle_for_readers` shows."""
    groups = shown["key_groups"]
    handle = {_BY_READERS.get(name, name): value for name, value in shown.items()}
    return handle_from_json(handle | {"key_groups": None if groups is None else dict(zip(_ENDS, groups, strict=True))})


def layout_version(run: StateHandle) -> int:
    """How often the columns had changed when a run was written."""
    return int(run.details.get("layout_version", 0))
