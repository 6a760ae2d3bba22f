"""A state handle as JSON: as it is sent by executors and stored in snapshots."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tidegate.protocol.keygroups import KeyGroupRange
from tidegate.protocol.records import HandleKind, StateHandle


def handle_to_json(handle: StateHandle) -> dict[str, Any]:
    return {**asdict(handle), "details": dict(handle.details)}


def handle_from_json(handle: Mapping[str, Any]) -> StateHandle:
    """The handle that `handle_to_json` wrote."""
    groups = handle["key_groups"]
    known = {
        "kind": HandleKind(handle["kind"]),
        "key_groups": None if groups is None else KeyGroupRange(**groups),
    }
    return StateHandle(**{**handle, **known})
