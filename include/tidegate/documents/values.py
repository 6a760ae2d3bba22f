"""How one value is written, whatever document it is in."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum, IntEnum
from typing import Any

from tidegate.protocol.facts.handles import handle_for_readers
from tidegate.protocol.facts.records import StateHandle


def to_json(document: Any) -> str:
    return json.dumps(document, indent=2)


def milliseconds(at: datetime | None) -> int:
    """Since 1970; -1 if there is no such moment."""
    return -1 if at is None else round(at.timestamp() * 1000)


def handle_document(handle: StateHandle) -> dict[str, Any]:
    shown = handle_for_readers(handle)
    return {name: shown[name] for name in ("kind", "path", "rows", "bytes", "sha256", "created_by")}


def written(answer: Any) -> Any:
    """An answer as it is, with its own names. A moment `x_at` becomes `x_timestamp`, `since` becomes
    `since_timestamp`, and `at` becomes `timestamp`."""
    if isinstance(answer, StateHandle):
        return handle_document(answer)
    if is_dataclass(answer) and not isinstance(answer, type):
        return dict(_field(field.name, getattr(answer, field.name)) for field in fields(answer))
    if isinstance(answer, Mapping):
        return {str(key): written(value) for key, value in answer.items()}
    if isinstance(answer, list | tuple | set | frozenset):
        return [written(each) for each in answer]
    if isinstance(answer, datetime):
        return milliseconds(answer)
    if isinstance(answer, Enum):
        return answer.name if isinstance(answer, IntEnum) else answer.value
    return answer


def _field(name: str, value: Any) -> tuple[str, Any]:
    if name == "at" and isinstance(value, datetime):
        return "timestamp", milliseconds(value)
    if name == "since":
        return "since_timestamp", milliseconds(value)
    if name.endswith("_at") and (value is None or isinstance(value, datetime)):
        return f"{name.removesuffix('_at')}_timestamp", milliseconds(value)
    return name, written(value)
